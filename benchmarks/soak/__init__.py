"""Many small pipelines on a real system, one after the other: nothing is lost, and memory and disk stay bounded."""
