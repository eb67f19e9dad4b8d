# Prints the crypt(5) hash of the password on standard input. Argument: the method and the salt, like `$6$SALT$`.
#
# System calls: none. It uses crypt(3), which Node does not have. Programs with crypt(3) are in optional packages.
use strict;

my ($salt) = @ARGV;
my $password = do { local $/; <STDIN> } // '';
print crypt($password, $salt) // die "crypt: $!\n";
