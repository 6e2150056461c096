# train.sbatch
run=bert-large-1129-a3f
stage=train
folder=/fsx/trnctl/runs/fsdp-llama3-8b
code_folder=/fsx/trnctl/runs/fsdp-llama3-8b/code
script=train.py
virtualenv=/fsx/trnctl/environments/trainer
reserved_ports=48620
cache=/fsx/trnctl/cache/p4d/2.31.1
# srun no longer takes --cpus-per-task from the job.
export SRUN_CPUS_PER_TASK=96

# What the workers get, and only they.
# shellcheck disable=SC2054  # a comma belongs to its value
environment=(
    NEURON_COMPILE_CACHE_URL=/fsx/trnctl/cache/p4d/2.31.1
    FI_PROVIDER=efa
)
# shellcheck disable=SC2054
arguments=(
    --parallel=/fsx/trnctl/runs/fsdp-llama3-8b/parallel.json
    --steps=1000
    --data=synthetic
    --lr=0.0003
    --warmup=100
    --checkpoints=/fsx/trnctl/runs/fsdp-llama3-8b/checkpoints
    --every=100
    --output=/fsx/trnctl/runs/fsdp-llama3-8b/output
    --device=cuda
)
