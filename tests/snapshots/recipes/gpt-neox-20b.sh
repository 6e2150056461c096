# compile.sbatch
run=bert-large-1129-a3f
stage=compile
folder=/fsx/trnctl/runs/gpt-neox-20b
code_folder=/fsx/trnctl/src/neuronx-distributed-9a5cbe173dde/examples/training/tp_dp_gpt_neox_hf_pretrain/tp_dp_gpt_neox_20b_hf_pretrain
script=tp_dp_gpt_neox_20b_hf_pretrain.py
virtualenv=/fsx/trnctl/packages/012781a16721
reserved_ports=44000,48620
cache=/fsx/trnctl/cache/trn1/2.31.1
parallel= # how many graphs a node compiles at once; empty: as many as its memory holds
# srun no longer takes --cpus-per-task from the job.
export SRUN_CPUS_PER_TASK=128

# What the workers get, and only they.
# shellcheck disable=SC2054  # a comma belongs to its value
environment=(
    NEURON_COMPILE_CACHE_URL=/fsx/trnctl/cache/trn1/2.31.1
    PYTHONPATH=/fsx/trnctl/src/neuronx-distributed-9a5cbe173dde/examples/training/tp_dp_gpt_neox_hf_pretrain/tp_dp_gpt_neox_20b_hf_pretrain/../common
    'NEURON_CC_FLAGS=--model-type=transformer -O1 --enable-saturate-infinity --retry_failed_compilation'
    NEURON_FUSE_SOFTMAX=1
    XLA_DOWNCAST_BF16=1
    NEURON_RT_STOCHASTIC_ROUNDING_EN=1
    MALLOC_ARENA_MAX=64
    NEURON_RT_NUM_CORES=32
    TPU_NUM_DEVICES=32
    TPU_CHIPS_PER_HOST_BOUNDS=32
    FI_PROVIDER=efa
    FI_EFA_USE_DEVICE_RDMA=1
)
# shellcheck disable=SC2054
arguments=(
    --data_dir=/fsx/trnctl/data/wikicorpus_gpt_neox_tokenized_2k
    --output_dir=/fsx/trnctl/runs/gpt-neox-20b/output/compile
    --metrics_file=/fsx/trnctl/runs/gpt-neox-20b/output/compile/metrics.json
    --tensor_parallel_size=32
    --batch_size=1
    --grad_accum_usteps=64
    --max_steps=10000
    --steps_this_run=2
    --lr=9.7e-06
    --warmup_steps=100
)

# train.sbatch
run=bert-large-1129-a3f
stage=train
folder=/fsx/trnctl/runs/gpt-neox-20b
code_folder=/fsx/trnctl/src/neuronx-distributed-9a5cbe173dde/examples/training/tp_dp_gpt_neox_hf_pretrain/tp_dp_gpt_neox_20b_hf_pretrain
script=tp_dp_gpt_neox_20b_hf_pretrain.py
virtualenv=/fsx/trnctl/packages/012781a16721
reserved_ports=44000,48620
cache=/fsx/trnctl/cache/trn1/2.31.1
# srun no longer takes --cpus-per-task from the job.
export SRUN_CPUS_PER_TASK=128

# What the workers get, and only they.
# shellcheck disable=SC2054  # a comma belongs to its value
environment=(
    NEURON_COMPILE_CACHE_URL=/fsx/trnctl/cache/trn1/2.31.1
    PYTHONPATH=/fsx/trnctl/src/neuronx-distributed-9a5cbe173dde/examples/training/tp_dp_gpt_neox_hf_pretrain/tp_dp_gpt_neox_20b_hf_pretrain/../common
    'NEURON_CC_FLAGS=--model-type=transformer -O1 --enable-saturate-infinity'
    NEURON_FUSE_SOFTMAX=1
    XLA_DOWNCAST_BF16=1
    NEURON_RT_STOCHASTIC_ROUNDING_EN=1
    MALLOC_ARENA_MAX=64
    NEURON_RT_NUM_CORES=32
    TPU_NUM_DEVICES=32
    TPU_CHIPS_PER_HOST_BOUNDS=32
    FI_PROVIDER=efa
    FI_EFA_USE_DEVICE_RDMA=1
)
# shellcheck disable=SC2054
arguments=(
    --data_dir=/fsx/trnctl/data/wikicorpus_gpt_neox_tokenized_2k
    --output_dir=/fsx/trnctl/runs/gpt-neox-20b/checkpoints
    --metrics_file=/fsx/trnctl/runs/gpt-neox-20b/output/metrics.json
    --tensor_parallel_size=32
    --batch_size=1
    --grad_accum_usteps=64
    --max_steps=10000
    --steps_this_run=10000
    --lr=9.7e-06
    --warmup_steps=100
)
