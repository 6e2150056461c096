# train.sbatch
run=bert-large-1129-a3f
stage=train
folder=/fsx/trnctl/runs/fsdp-llama-tiny
code_folder=/fsx/trnctl/runs/fsdp-llama-tiny/code
script=train.py
virtualenv=''
reserved_ports=48620
cache=/fsx/trnctl/cache/c5/2.31.1
# srun no longer takes --cpus-per-task from the job.
export SRUN_CPUS_PER_TASK=4

# What the workers get, and only they.
# shellcheck disable=SC2054  # a comma belongs to its value
environment=(
    NEURON_COMPILE_CACHE_URL=/fsx/trnctl/cache/c5/2.31.1
    OMP_NUM_THREADS=1
)
# shellcheck disable=SC2054
arguments=(
    --parallel=/fsx/trnctl/runs/fsdp-llama-tiny/parallel.json
    --steps=200
    --lr=0.003
    --warmup=10
    --checkpoints=/fsx/trnctl/runs/fsdp-llama-tiny/checkpoints
    --every=20
    --output=/fsx/trnctl/runs/fsdp-llama-tiny/output
    --device=cpu
)
