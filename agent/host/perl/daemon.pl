# Starts a program that stays when whoever started it ends: a session of its own, and none of its files. Arguments: a
# file for its errors, the program, its arguments.
use strict;
use POSIX ();

my ($log, @command) = @ARGV;
open(STDIN, '<', '/dev/null') && open(STDOUT, '>', '/dev/null') or die "/dev/null: $!\n";
open(my $errors, '>', $log) or die "$log: $!\n";
my $pid = fork // die "fork: $!\n";
if ($pid) {
  # Whoever waits learns of the end once both outputs are closed.
  POSIX::_exit(0);
}
POSIX::setsid();
POSIX::dup2(fileno $errors, 2);
exec { $command[0] } @command;
POSIX::_exit(127);
