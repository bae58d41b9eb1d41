"""What differs between families of vision-language models, one file of facts each."""
