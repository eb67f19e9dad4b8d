# Runs a program with a seccomp filter. Arguments: the filter as confine() takes it, then the program with its arguments.
#
# System calls: prctl with PR_SET_SECCOMP between fork and exec. Node cannot set a filter, and no tool of Debian can.
use strict;
require(__FILE__ =~ s{[^/]+\z}{common.pl}r);

my ($filter, @program) = @ARGV;
confine($filter);
exec { $program[0] } @program;
die "$program[0]: $!\n";
