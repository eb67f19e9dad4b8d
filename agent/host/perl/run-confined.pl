# Runs a program with a seccomp filter. Arguments: the filter in the form of confine(), then the program with its arguments.
#
# System calls: prctl with PR_SET_SECCOMP between fork and exec. Neither Node nor a tool of Debian can set a filter.
use strict;
require(__FILE__ =~ s{[^/]+\z}{common.pl}r);

my ($filter, @program) = @ARGV;
confine($filter);
exec { $program[0] } @program;
die "$program[0]: $!\n";
