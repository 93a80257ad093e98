"""What keeps the repository in order: the steps of CI, run alike by people and by workflows."""
