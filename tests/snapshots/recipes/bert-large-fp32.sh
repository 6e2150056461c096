# compile.sbatch
run=bert-large-1129-a3f
stage=compile
folder=/fsx/trnctl/runs/bert-large-fp32
code_folder=/fsx/trnctl/src/aws-neuron-samples-41732e7f6014/torch-neuronx/training/dp_bert_hf_pretrain
script=dp_bert_large_hf_pretrain_hdf5.py
virtualenv=/fsx/trnctl/packages/c2e95cb91fef
reserved_ports=48620
cache=/fsx/trnctl/cache/trn1/2.31.1
parallel= # how many graphs a node compiles at once; empty: as many as its memory holds
# srun no longer takes --cpus-per-task from the job.
export SRUN_CPUS_PER_TASK=128

# What the workers get, and only they.
# shellcheck disable=SC2054  # a comma belongs to its value
environment=(
    NEURON_COMPILE_CACHE_URL=/fsx/trnctl/cache/trn1/2.31.1
    NEURON_RT_EXEC_TIMEOUT=600
    NEURON_CC_FLAGS=--retry_failed_compilation
    HF_HOME=/fsx/trnctl/hub
    HF_HUB_OFFLINE=1
    TF_GRPC_DEFAULT_OPTIONS=grpc.keepalive_time_ms=60000,grpc.keepalive_timeout_ms=14400000,grpc.http2.max_pings_without_data=0,grpc.http2.min_ping_interval_without_data_ms=600000
)
# shellcheck disable=SC2054
arguments=(
    --data_dir=/fsx/trnctl/data/bert_pretrain_wikicorpus_tokenized_hdf5_seqlen128/
    --output_dir=/fsx/trnctl/runs/bert-large-fp32/output/compile
    --metrics_file=/fsx/trnctl/runs/bert-large-fp32/output/compile/metrics.json
    --batch_size=8
    --grad_accum_usteps=64
    --max_steps=28125
    --steps_this_run=5
    --lr=0.0004
    --warmup_steps=2000
    --seq_len=128
    --max_pred_len=20
    --seed=12349
    --optimizer=AdamW
    --enable_fp32
)

# train.sbatch
run=bert-large-1129-a3f
stage=train
folder=/fsx/trnctl/runs/bert-large-fp32
code_folder=/fsx/trnctl/src/aws-neuron-samples-41732e7f6014/torch-neuronx/training/dp_bert_hf_pretrain
script=dp_bert_large_hf_pretrain_hdf5.py
virtualenv=/fsx/trnctl/packages/c2e95cb91fef
reserved_ports=48620
cache=/fsx/trnctl/cache/trn1/2.31.1
# srun no longer takes --cpus-per-task from the job.
export SRUN_CPUS_PER_TASK=128

# What the workers get, and only they.
# shellcheck disable=SC2054  # a comma belongs to its value
environment=(
    NEURON_COMPILE_CACHE_URL=/fsx/trnctl/cache/trn1/2.31.1
    NEURON_RT_EXEC_TIMEOUT=600
    NEURON_CC_FLAGS=--retry_failed_compilation
    HF_HOME=/fsx/trnctl/hub
    HF_HUB_OFFLINE=1
    TF_GRPC_DEFAULT_OPTIONS=grpc.keepalive_time_ms=60000,grpc.keepalive_timeout_ms=14400000,grpc.http2.max_pings_without_data=0,grpc.http2.min_ping_interval_without_data_ms=600000
)
# shellcheck disable=SC2054
arguments=(
    --data_dir=/fsx/trnctl/data/bert_pretrain_wikicorpus_tokenized_hdf5_seqlen128/
    --output_dir=/fsx/trnctl/runs/bert-large-fp32/checkpoints
    --metrics_file=/fsx/trnctl/runs/bert-large-fp32/output/metrics.json
    --batch_size=8
    --grad_accum_usteps=64
    --max_steps=28125
    --steps_this_run=28125
    --lr=0.0004
    --warmup_steps=2000
    --seq_len=128
    --max_pred_len=20
    --seed=12349
    --optimizer=AdamW
    --enable_fp32
)
