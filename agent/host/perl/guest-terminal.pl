# Before lxc-attach with a shell on a terminal of the container's own, which nobody on the host passes on. File 3 is the
# master of the terminal; lxc-attach has no other file of the starter but that for errors, and gets the container's side
# of it as file 3. $ARGV[0]: root of the container on the host; then what lxc-attach is given, a script at the end.
use strict;
use Fcntl;
use POSIX ();

# asm-generic/ioctls.h: a terminal is locked at first, and has no other name that a container could not have replaced.
my ($set_lock, $open_peer, $set_controlling) = (0x40045431, 0x5441, 0x540E);

$^F = 3; # stays open for lxc-attach
umask 022;
my $root = shift @ARGV;
open(my $master, '+<&=', 3) or die "file 3: $!\n";
my $unlocked = pack('i', 0);
ioctl($master, $set_lock, $unlocked) or die "unlock the terminal: $!\n";
my $peer = ioctl($master, $open_peer, O_RDWR | O_NOCTTY) or die "open the terminal: $!\n";
POSIX::dup2($peer, 3) or die "file 3: $!\n";
open(my $terminal, '+<&=', 3) or die "file 3: $!\n";
chown($root, -1, $terminal) or die "own the terminal: $!\n";
opendir(my $files, '/proc/self/fd') or die "$!\n";
POSIX::close($_) for grep { $_ > 3 } readdir $files;

# The shell should lead a session, which takes a program of the container's. Without one the terminal is that of
# lxc-attach's session, which the shell inherits.
sub attach_on_terminal {
  my @attach = @_;
  my $script = pop @attach;
  my $can_lead = can_lead_session(@attach);
  ioctl($terminal, $set_controlling, 0) unless $can_lead;
  exec { $attach[0] } @attach, $script, 'sh', $can_lead ? 'setsid -c' : '';
}

sub can_lead_session {
  my @attach = @_;
  my $pid = fork // die "fork: $!\n";
  if (!$pid) {
    open(STDERR, '>', '/dev/null'); # what fails here fails again, and is told then
    exec { $attach[0] } @attach, 'command -v setsid';
    POSIX::_exit(127);
  }
  waitpid($pid, 0);
  return $? == 0;
}
