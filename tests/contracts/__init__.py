"""What every implementation of a door must do, said once.

Each suite is a class whose tests take one fixture. An implementation's test module inherits the class and gives the
fixture:

    class TestSlurmOverSsh(JobQueueContract):
        @pytest.fixture
        def bench(self, …) -> Iterator[QueueBench]: …
"""
