"""Face forgery: from video to fused decision. Needs ``pip install "lpfuse[faces]"``."""
