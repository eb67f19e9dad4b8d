# Runs a program in a container without a terminal: its input and outputs are pipes. Arguments: the host's user id of the
# container's root, the filter in the form of confine(), then lxc-attach with its arguments.
#
# The starter, which is Node, can only make sockets, which a program cannot open as /dev/stdin or /dev/stderr. This program
# makes pipes that belong to the container's root, and writes the numbers of their descriptors on descriptor 1: input,
# output, errors. The starter opens the pipes in /proc and then sends a byte on descriptor 0. When descriptor 0 is closed
# later, all processes of the program are ended. The exit code is that of lxc-attach.
#
# System calls: pipe, and prctl with a seccomp filter between fork and exec. Node has neither of them.
use strict;
use POSIX ();
require(__FILE__ =~ s{[^/]+\z}{common.pl}r);

my $last_words_seconds = 1;

umask 022;
my ($root, $filter, @program) = @ARGV;
close_others();
pipe(my $input, my $input_end) && pipe(my $output_end, my $output) && pipe(my $errors_end, my $errors)
  or die "pipe: $!\n";
chown($root, -1, $input, $output, $errors) == 3 or die "owner of the pipes: $!\n";
syswrite(STDOUT, join(' ', fileno $input_end, fileno $output_end, fileno $errors_end) . "\n");
sysread(STDIN, my $opened, 1) or exit 1;

# The watcher begins first, so that no program runs without it.
my $watcher = fork // die "fork: $!\n";
end_with_starter() if !$watcher;
my $pid = fork // die "fork: $!\n";
run_program() if !$pid;
$SIG{HUP} = 'IGNORE';
close_pipes();
waitpid($pid, 0);
my $status = $?;
kill 'TERM', $watcher;
exit($status & 127 ? 128 + ($status & 127) : $status >> 8);

# Closes the other descriptors of the starter, which may be terminals of other guests.
sub close_others {
  opendir(my $files, '/proc/self/fd') or die "$!\n";
  POSIX::close($_) for grep { $_ > 2 } readdir $files;
}

sub close_pipes {
  close $_ for $input, $input_end, $output, $output_end, $errors, $errors_end;
}

sub run_program {
  my @files = map { fileno $_ } $input, $output, $errors;
  POSIX::dup2($files[$_], $_) // POSIX::_exit(126) for 0 .. 2;
  close_others();
  confine($filter);
  exec { $program[0] } @program;
  die "$program[0]: $!\n";
}

# Waits until the starter closes descriptor 0, then hangs up. The watcher belongs to the process group, so that the
# group's number cannot be used again before all processes of the group are killed.
sub end_with_starter {
  my $group = getpgrp;
  $SIG{HUP} = 'IGNORE';
  close_pipes();
  close STDOUT;
  close STDERR;
  1 while sysread(STDIN, my $rest, 4096);
  $SIG{TERM} = 'IGNORE';
  kill 'HUP', -$group;
  select(undef, undef, undef, $last_words_seconds);
  kill 'KILL', -$group;
  POSIX::_exit(0);
}
