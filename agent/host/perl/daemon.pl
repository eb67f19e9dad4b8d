# Starts a program that outlives the agent: in a session of its own, without files of the agent. Arguments: a file for its
# standard error, then the program with its arguments.
#
# System calls: setsid between fork and exec. Node can do this only by forking the agent itself, which blocks it.
use strict;
use POSIX ();

my ($log, @command) = @ARGV;
open(STDIN, '<', '/dev/null') && open(STDOUT, '>', '/dev/null') or die "/dev/null: $!\n";
open(my $errors, '>', $log) or die "$log: $!\n";
my $pid = fork // die "fork: $!\n";
if ($pid) {
  POSIX::_exit(0);
}
POSIX::setsid();
POSIX::dup2(fileno $errors, 2);
exec { $command[0] } @command;
POSIX::_exit(127);
