# Runs a program on a terminal of the host that changes no byte of input and output. The program gets no descriptors of
# the starter. Arguments: a filter in the form of confine() or an empty argument, then the program with its arguments.
#
# System calls: ioctl with TCGETS and TCSETS (POSIX::Termios) while the program starts, and a seccomp filter between fork
# and exec. Node has neither of them.
use strict;
use POSIX ();
require(__FILE__ =~ s{[^/]+\z}{common.pl}r);

my ($filter, @program) = @ARGV;

# Closes all other descriptors of the starter, which may be terminals of other guests.
opendir(my $fds, '/proc/self/fd') or die "$!\n";
POSIX::close($_) for grep { $_ > 2 } readdir $fds;
umask 022;
# Makes the terminal change nothing, because the guest's own terminal already echoes and ends lines. lxc's programs change
# the host's terminal, too (lxc_setup_tios() in terminal.c). A separate process reverts that change as soon as it is made.
sub set_plain {
  my $terminal = POSIX::Termios->new;
  defined $terminal->getattr(0) or return 1;
  my $was_plain = !($terminal->getoflag & POSIX::OPOST());
  $terminal->setiflag(0);
  $terminal->setoflag(0);
  $terminal->setlflag(0);
  $terminal->setattr(0, POSIX::TCSANOW());
  return !$was_plain;
}
set_plain();
my $pid = fork // die "$!\n";
if (!$pid) {
  if (!fork) { for (1 .. 2000) { last if set_plain(); select(undef, undef, undef, 0.005) } }
  POSIX::_exit(0);
}
waitpid($pid, 0);
confine($filter) if $filter ne '';
exec { $program[0] } @program;
die "$program[0]: $!\n";
