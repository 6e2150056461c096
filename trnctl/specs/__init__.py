"""What the user asks for, as frozen values: the cluster file and the workload recipes. No I/O."""
