"""The build: the bake file's reader, the user data of the box and the build specification that runs on it."""
