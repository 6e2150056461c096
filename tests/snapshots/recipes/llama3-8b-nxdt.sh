# compile.sbatch
run=bert-large-1129-a3f
stage=compile
folder=/fsx/trnctl/runs/llama3-8b-nxdt
code_folder=/fsx/trnctl/src/neuronx-distributed-training-9169aa03f39e/examples
script=training_orchestrator.py
virtualenv=/opt/aws_neuronx_venv_pytorch_2_9_nxd_training
reserved_ports=41000
cache=/fsx/trnctl/cache/trn1/2.31.1
parallel= # how many graphs a node compiles at once; empty: as many as its memory holds
# srun no longer takes --cpus-per-task from the job.
export SRUN_CPUS_PER_TASK=128

# What the workers get, and only they.
# shellcheck disable=SC2054  # a comma belongs to its value
environment=(
    NEURON_COMPILE_CACHE_URL=/fsx/trnctl/cache/trn1/2.31.1
    XLA_DISABLE_FUNCTIONALIZATION=0
    HYDRA_FULL_ERROR=1
    MALLOC_ARENA_MAX=128
    CREATE_TB_LOGGER=True
    CHECKPOINT_CALLBACK=True
    FI_PROVIDER=efa
    FI_EFA_USE_DEVICE_RDMA=1
    COMPILE=1
    NEURON_CC_FLAGS=--retry_failed_compilation
)
# shellcheck disable=SC2054
arguments=(
    --config-path=conf
    --config-name=hf_llama3_8B_config
    trainer.devices=32
    trainer.num_nodes=4
    trainer.max_steps=10000
    distributed_strategy.tensor_model_parallel_size=32
    distributed_strategy.pipeline_model_parallel_size=1
    data.micro_batch_size=1
    data.global_batch_size=1024
    data.train_dir=/fsx/trnctl/data/wikicorpus_llama3_tokenized_8k
    model.model_config=/fsx/trnctl/data/llama3_8b_config.json
    exp_manager.explicit_log_dir=/fsx/trnctl/runs/llama3-8b-nxdt/output/compile
    exp_manager.checkpoint_callback_params.dirpath=/fsx/trnctl/runs/llama3-8b-nxdt/checkpoints
    exp_manager.checkpoint_callback_params.every_n_train_steps=10
)

# train.sbatch
run=bert-large-1129-a3f
stage=train
folder=/fsx/trnctl/runs/llama3-8b-nxdt
code_folder=/fsx/trnctl/src/neuronx-distributed-training-9169aa03f39e/examples
script=training_orchestrator.py
virtualenv=/opt/aws_neuronx_venv_pytorch_2_9_nxd_training
reserved_ports=41000
cache=/fsx/trnctl/cache/trn1/2.31.1
# srun no longer takes --cpus-per-task from the job.
export SRUN_CPUS_PER_TASK=128

# What the workers get, and only they.
# shellcheck disable=SC2054  # a comma belongs to its value
environment=(
    NEURON_COMPILE_CACHE_URL=/fsx/trnctl/cache/trn1/2.31.1
    XLA_DISABLE_FUNCTIONALIZATION=0
    HYDRA_FULL_ERROR=1
    MALLOC_ARENA_MAX=128
    CREATE_TB_LOGGER=True
    CHECKPOINT_CALLBACK=True
    FI_PROVIDER=efa
    FI_EFA_USE_DEVICE_RDMA=1
)
# shellcheck disable=SC2054
arguments=(
    --config-path=conf
    --config-name=hf_llama3_8B_config
    trainer.devices=32
    trainer.num_nodes=4
    trainer.max_steps=10000
    distributed_strategy.tensor_model_parallel_size=32
    distributed_strategy.pipeline_model_parallel_size=1
    data.micro_batch_size=1
    data.global_batch_size=1024
    data.train_dir=/fsx/trnctl/data/wikicorpus_llama3_tokenized_8k
    model.model_config=/fsx/trnctl/data/llama3_8b_config.json
    exp_manager.explicit_log_dir=/fsx/trnctl/runs/llama3-8b-nxdt/output
    exp_manager.checkpoint_callback_params.dirpath=/fsx/trnctl/runs/llama3-8b-nxdt/checkpoints
    exp_manager.checkpoint_callback_params.every_n_train_steps=10
)
