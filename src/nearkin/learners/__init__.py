"""The methods of the paper's section 3, one file each."""
