# Before a command on a terminal of the host: it gets nothing of whoever starts it, and changes no byte.
use strict;
use POSIX ();

# No files of the starter, which may be others' terminals.
opendir(my $fds, '/proc/self/fd') or die "$!\n";
POSIX::close($_) for grep { $_ > 2 } readdir $fds;
umask 022;
# The guest's own terminal echoes and makes ends of lines; this one changes nothing. lxc's programs set it to make ends of
# lines, too (lxc_setup_tios() in terminal.c), which is undone by a process of its own as soon as they have.
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
