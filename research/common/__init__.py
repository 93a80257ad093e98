"""What every benchmark shares: clock, memory, processes, stored records, pages."""
