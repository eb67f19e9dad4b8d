# Starts a program that outlives the agent, in a separate session and without descriptors of the agent. Arguments: a file
# for the standard error, then the program with its arguments.
#
# System calls: setsid between fork and exec. Node can do this only by a fork of the agent itself, which blocks the agent.
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
