# compile.sbatch
run=bert-large-1129-a3f
stage=compile
folder=/fsx/trnctl/runs/llama2-7b
code_folder=/fsx/trnctl/src/neuronx-distributed-9a5cbe173dde/examples/training/llama/tp_zero1_llama_hf_pretrain
script=tp_zero1_llama_hf_pretrain.py
virtualenv=/fsx/trnctl/packages/b9bae48323b7
reserved_ports=44000,48620
cache=/fsx/trnctl/cache/trn1/2.31.1
parallel= # how many graphs a node compiles at once; empty: as many as its memory holds
# srun no longer takes --cpus-per-task from the job.
export SRUN_CPUS_PER_TASK=128

# What the workers get, and only they.
# shellcheck disable=SC2054  # a comma belongs to its value
environment=(
    NEURON_COMPILE_CACHE_URL=/fsx/trnctl/cache/trn1/2.31.1
    PYTHONPATH=/fsx/trnctl/src/neuronx-distributed-9a5cbe173dde/examples/training/llama/tp_zero1_llama_hf_pretrain/..
    'NEURON_CC_FLAGS=--model-type transformer --retry_failed_compilation'
    NEURON_FUSE_SOFTMAX=1
    MALLOC_ARENA_MAX=64
    NEURON_RT_NUM_CORES=32
    TPU_NUM_DEVICES=32
    TPU_CHIPS_PER_HOST_BOUNDS=32
    FI_PROVIDER=efa
    FI_EFA_USE_DEVICE_RDMA=1
)
# shellcheck disable=SC2054
arguments=(
    --model_path=7B_config_llama2
    --data_dir=/fsx/trnctl/data/wikicorpus_llama2_tokenized_4k
    --output_dir=/fsx/trnctl/runs/llama2-7b/output/compile
    --metrics_file=/fsx/trnctl/runs/llama2-7b/output/compile/metrics.json
    --tensor_parallel_size=8
    --batch_size=1
    --grad_accum_usteps=64
    --max_steps=10000
    --steps_this_run=2
    --lr=0.0003
    --warmup_steps=100
    --seq_len=4096
    --sequence_parallel_enabled
    --selective_checkpoint_enabled
    --use_mix_precision
    --use_zero_1
    --logging_interval=10
    --checkpoint_dir=/fsx/trnctl/runs/llama2-7b/checkpoints
    --checkpoint_freq=-1
    --num_kept_checkpoint=2
)

# train.sbatch
run=bert-large-1129-a3f
stage=train
folder=/fsx/trnctl/runs/llama2-7b
code_folder=/fsx/trnctl/src/neuronx-distributed-9a5cbe173dde/examples/training/llama/tp_zero1_llama_hf_pretrain
script=tp_zero1_llama_hf_pretrain.py
virtualenv=/fsx/trnctl/packages/b9bae48323b7
reserved_ports=44000,48620
cache=/fsx/trnctl/cache/trn1/2.31.1
# srun no longer takes --cpus-per-task from the job.
export SRUN_CPUS_PER_TASK=128

# What the workers get, and only they.
# shellcheck disable=SC2054  # a comma belongs to its value
environment=(
    NEURON_COMPILE_CACHE_URL=/fsx/trnctl/cache/trn1/2.31.1
    PYTHONPATH=/fsx/trnctl/src/neuronx-distributed-9a5cbe173dde/examples/training/llama/tp_zero1_llama_hf_pretrain/..
    'NEURON_CC_FLAGS=--model-type transformer'
    NEURON_FUSE_SOFTMAX=1
    MALLOC_ARENA_MAX=64
    NEURON_RT_NUM_CORES=32
    TPU_NUM_DEVICES=32
    TPU_CHIPS_PER_HOST_BOUNDS=32
    FI_PROVIDER=efa
    FI_EFA_USE_DEVICE_RDMA=1
)
# shellcheck disable=SC2054
arguments=(
    --model_path=7B_config_llama2
    --data_dir=/fsx/trnctl/data/wikicorpus_llama2_tokenized_4k
    --output_dir=/fsx/trnctl/runs/llama2-7b/output
    --metrics_file=/fsx/trnctl/runs/llama2-7b/output/metrics.json
    --tensor_parallel_size=8
    --batch_size=1
    --grad_accum_usteps=64
    --max_steps=10000
    --steps_this_run=10000
    --lr=0.0003
    --warmup_steps=100
    --seq_len=4096
    --sequence_parallel_enabled
    --selective_checkpoint_enabled
    --use_mix_precision
    --use_zero_1
    --logging_interval=10
    --checkpoint_dir=/fsx/trnctl/runs/llama2-7b/checkpoints
    --checkpoint_freq=50
    --num_kept_checkpoint=2
)
