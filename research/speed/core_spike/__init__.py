"""One piece of the interior point in five toolchains: the spike behind docs/adr/0039."""
