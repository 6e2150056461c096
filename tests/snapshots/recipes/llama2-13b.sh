# compile.sbatch
run=bert-large-1129-a3f
stage=compile
folder=/fsx/trnctl/runs/llama2-13b
code_folder=/fsx/trnctl/src/neuronx-distributed-9a5cbe173dde/examples/training/llama/tp_pp_llama_hf_pretrain
script=run_llama_nxd.py
virtualenv=/fsx/trnctl/packages/b9bae48323b7
reserved_ports=44000
cache=/fsx/trnctl/cache/trn1/2.31.1
parallel= # how many graphs a node compiles at once; empty: as many as its memory holds
# srun no longer takes --cpus-per-task from the job.
export SRUN_CPUS_PER_TASK=128

# What the workers get, and only they.
# shellcheck disable=SC2054  # a comma belongs to its value
environment=(
    NEURON_COMPILE_CACHE_URL=/fsx/trnctl/cache/trn1/2.31.1
    PYTHONPATH=/fsx/trnctl/src/neuronx-distributed-9a5cbe173dde/examples/training/llama/tp_pp_llama_hf_pretrain/..
    'NEURON_CC_FLAGS=--model-type=transformer --retry_failed_compilation'
    NEURON_FUSE_SOFTMAX=1
    MALLOC_ARENA_MAX=128
    XLA_DOWNCAST_BF16=1
    FI_PROVIDER=efa
    FI_EFA_USE_DEVICE_RDMA=1
)
# shellcheck disable=SC2054
arguments=(
    --training_config=13B_config_llama2
    --training_dir=/fsx/trnctl/data/wikicorpus_llama2_tokenized_4k
    --tb_dir=/fsx/trnctl/runs/llama2-13b/output/compile/tensorboard
    --metrics_file=/fsx/trnctl/runs/llama2-13b/output/compile/metrics.json
    --tensor_parallel_size=8
    --pipeline_parallel_size=4
    --train_batch_size=32
    --num_microbatches=32
    --max_steps=10
    --seq_len=4096
    --lr=0.00015
    --min_lr=1e-05
    --beta1=0.9
    --beta2=0.95
    --weight_decay=0.1
    --warmup_steps=2000
    --constant_steps=0
    --use_meta_device_init=1
    --use_zero1_optimizer=1
    --use_selective_checkpoint=1
    --save_load_xser=1
    --checkpoint_dir=/fsx/trnctl/runs/llama2-13b/checkpoints
    --checkpoint_freq=-1
    --num_kept_checkpoint=2
)

# train.sbatch
run=bert-large-1129-a3f
stage=train
folder=/fsx/trnctl/runs/llama2-13b
code_folder=/fsx/trnctl/src/neuronx-distributed-9a5cbe173dde/examples/training/llama/tp_pp_llama_hf_pretrain
script=run_llama_nxd.py
virtualenv=/fsx/trnctl/packages/b9bae48323b7
reserved_ports=44000
cache=/fsx/trnctl/cache/trn1/2.31.1
# srun no longer takes --cpus-per-task from the job.
export SRUN_CPUS_PER_TASK=128

# What the workers get, and only they.
# shellcheck disable=SC2054  # a comma belongs to its value
environment=(
    NEURON_COMPILE_CACHE_URL=/fsx/trnctl/cache/trn1/2.31.1
    PYTHONPATH=/fsx/trnctl/src/neuronx-distributed-9a5cbe173dde/examples/training/llama/tp_pp_llama_hf_pretrain/..
    NEURON_CC_FLAGS=--model-type=transformer
    NEURON_FUSE_SOFTMAX=1
    MALLOC_ARENA_MAX=128
    XLA_DOWNCAST_BF16=1
    FI_PROVIDER=efa
    FI_EFA_USE_DEVICE_RDMA=1
)
# shellcheck disable=SC2054
arguments=(
    --training_config=13B_config_llama2
    --training_dir=/fsx/trnctl/data/wikicorpus_llama2_tokenized_4k
    --tb_dir=/fsx/trnctl/runs/llama2-13b/output/tensorboard
    --metrics_file=/fsx/trnctl/runs/llama2-13b/output/metrics.json
    --tensor_parallel_size=8
    --pipeline_parallel_size=4
    --train_batch_size=32
    --num_microbatches=32
    --max_steps=30000
    --seq_len=4096
    --lr=0.00015
    --min_lr=1e-05
    --beta1=0.9
    --beta2=0.95
    --weight_decay=0.1
    --warmup_steps=2000
    --constant_steps=0
    --use_meta_device_init=1
    --use_zero1_optimizer=1
    --use_selective_checkpoint=1
    --save_load_xser=1
    --checkpoint_dir=/fsx/trnctl/runs/llama2-13b/checkpoints
    --checkpoint_freq=100
    --num_kept_checkpoint=2
)
