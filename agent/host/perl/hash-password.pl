# Prints the crypt(5) hash of the password on standard input. Argument: the salt with the method, like `$6$SALT$`.
#
# System calls: none, but crypt(3), which Node lacks. Programs that have it are in packages that not every host has.
use strict;

my ($salt) = @ARGV;
my $password = do { local $/; <STDIN> } // '';
print crypt($password, $salt) // die "crypt: $!\n";
