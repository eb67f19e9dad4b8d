# Runs a program on a terminal of the host, so that it gets no descriptor of the starter and the terminal changes no byte.
# Arguments: a filter as confine() takes it, or an empty argument, then the program with its arguments.
#
# System calls: ioctl with TCGETS and TCSETS (POSIX::Termios) while the program starts, and a seccomp filter between fork
# and exec. Node has neither.
use strict;
use POSIX ();
require(__FILE__ =~ s{[^/]+\z}{common.pl}r);

my ($filter, @program) = @ARGV;

# Descriptors of the starter may be terminals of other guests.
opendir(my $fds, '/proc/self/fd') or die "$!\n";
POSIX::close($_) for grep { $_ > 2 } readdir $fds;
umask 022;
# The guest's own terminal echoes and ends lines; this one changes nothing. lxc's programs make it end lines as well
# (lxc_setup_tios() in terminal.c). A process of its own undoes that as soon as they have.
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
