def is_active():
    return False
