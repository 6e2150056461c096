"""The Neuron tools of an emulated node: real command lines, formats and exit codes; no Trainium behind them.

Every tool is a small program, started by a wrapper in clusters/NAME/bin (see `install`); sixteen nodes start one
at the same moment on a small machine, so nothing here imports more than it needs.

    emulation         what clusters/NAME/emulation.json says, and which node this is
    devices           what each instance type holds: chips, cores, links, EFA devices
    running, utilization           which training holds the cores of a node, and how busy they are
    log_lines, program             how Neuron's own log lines read; how a tool starts
    graphs, cache, compiler        the graphs of a training, the compile cache, one compilation
    parallel_compile  neuron_parallel_compile
    rendezvous, torchrun           ranks find each other; torchrun
    bert_training     the stand-in for the public BERT script, of bert_arguments, checkpoints, collective, pace
    stand_ins/        the files that lie where a recipe expects its source
    neuron_ls, neuron_top, neuron_monitor, fi_info, nccom_test    what people look at nodes with
    hardware_faults, dmesg         a broken device, and what the kernel says of it
"""
