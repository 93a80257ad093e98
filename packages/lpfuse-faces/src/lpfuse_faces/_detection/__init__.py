"""Where the faces of a picture are: MTCNN, and which face of a video is followed."""
