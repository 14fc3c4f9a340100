"""A prior over tables as people have them: bent and heaped columns, structure, far rows."""
