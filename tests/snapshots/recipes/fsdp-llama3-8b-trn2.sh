# train.sbatch
run=bert-large-1129-a3f
stage=train
folder=/fsx/trnctl/runs/fsdp-llama3-8b-trn2
code_folder=/fsx/trnctl/runs/fsdp-llama3-8b-trn2/code
script=train.py
virtualenv=/opt/aws_neuronx_venv_torch_neuronx_2_14_0
reserved_ports=48620
cache=/fsx/trnctl/cache/trn2/2.31.1
# srun no longer takes --cpus-per-task from the job.
export SRUN_CPUS_PER_TASK=192

# What the workers get, and only they.
# shellcheck disable=SC2054  # a comma belongs to its value
environment=(
    NEURON_COMPILE_CACHE_URL=/fsx/trnctl/cache/trn2/2.31.1
    TORCH_NEURONX_NEFF_CACHE_DIR=/fsx/trnctl/cache/neff
)
# shellcheck disable=SC2054
arguments=(
    --parallel=/fsx/trnctl/runs/fsdp-llama3-8b-trn2/parallel.json
    --steps=1000
    --data=synthetic
    --lr=0.0003
    --warmup=100
    --checkpoints=/fsx/trnctl/runs/fsdp-llama3-8b-trn2/checkpoints
    --every=100
    --output=/fsx/trnctl/runs/fsdp-llama3-8b-trn2/output
    --device=neuron
)
