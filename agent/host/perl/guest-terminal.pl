# Runs a shell in a container on a terminal of the container, so that no process of the host relays input and output.
# Descriptor 3 is the terminal's master. lxc-attach gets the other side as descriptor 3, and no other descriptor of the
# starter. Arguments: the host's user id of the container's root, the filter in the form of confine(), then lxc-attach with
# its arguments, of which the last is a shell script.
#
# System calls: ioctl with TIOCSPTLCK, TIOCGPTPEER, TIOCSCTTY and TIOCSWINSZ, which no tool can apply to a given descriptor;
# prctl with PR_SET_PDEATHSIG and a seccomp filter between fork and exec.
use strict;
use Fcntl;
use POSIX ();
require(__FILE__ =~ s{[^/]+\z}{common.pl}r);

# asm-generic/ioctls.h. A new terminal is locked. It is opened through its master, because a container can replace its name.
my ($set_lock, $open_peer, $set_controlling, $set_size) = (0x40045431, 0x5441, 0x540E, 0x5414);
my $no_setsid = 99;

$^F = 3; # descriptors up to 3 stay open for lxc-attach
umask 022;
my ($root, $filter, @attach) = @ARGV;
open(my $master, '+<&=', 3) or die "file 3: $!\n";
close_others();
keep_open();
my $unlocked = pack('i', 0);
ioctl($master, $set_lock, $unlocked) or die "unlock the terminal: $!\n";
my $peer = ioctl($master, $open_peer, O_RDWR | O_NOCTTY) or die "open the terminal: $!\n";
POSIX::dup2($peer, 3) or die "file 3: $!\n";
open(my $terminal, '+<&=', 3) or die "file 3: $!\n";
chown($root, -1, $terminal) or die "owner of the terminal: $!\n";
close_others();
confine($filter);
attach_on_terminal();

# Closes all other descriptors of the starter, which may be terminals of other guests.
sub close_others {
  opendir(my $files, '/proc/self/fd') or die "$!\n";
  POSIX::close($_) for grep { $_ > 3 } readdir $files;
}

# Sets the terminal's size and closes it, in a separate process. Both actions can wait for processes of a hostile
# container, but the starter must not wait, because it serves all guests' terminals. Sizes arrive on descriptor 0 as
# rows and columns of 16 bits. When descriptor 0 is closed, the terminal is closed.
sub keep_open {
  my $pid = fork // die "fork: $!\n";
  if ($pid) {
    open(STDIN, '<', '/dev/null') or die "$!\n";
    return;
  }
  setpgrp; # so that no key of the terminal can end this process
  open(STDERR, '>', '/dev/null');
  while ((read(STDIN, my $size, 4) // 0) == 4) { ioctl($master, $set_size, $size . pack('S2', 0, 0)) }
  POSIX::_exit(0);
}

# Runs lxc-attach. The shell should lead a session, which requires setsid(1) in the container. Otherwise the terminal
# belongs to the session of lxc-attach, which the shell inherits. The container gets no descriptor of the starter.
sub attach_on_terminal {
  end_with_starter();
  my $script = pop @attach;
  my $can_lead = can_lead_session();
  ioctl($terminal, $set_controlling, 0) unless $can_lead;
  open(STDERR, '>', '/dev/null') or die "$!\n";
  exec { $attach[0] } @attach, $script, 'sh', $can_lead ? 'setsid -c' : '';
  die "$attach[0]: $!\n";
}

# Tests whether the container has setsid(1). If lxc-attach itself fails, this program ends with its errors.
sub can_lead_session {
  pipe(my $errors, my $told) or die "pipe: $!\n";
  my $pid = fork // die "fork: $!\n";
  if (!$pid) {
    end_with_starter();
    POSIX::dup2(fileno $told, 2);
    exec { $attach[0] } @attach, "command -v setsid >/dev/null || exit $no_setsid";
    POSIX::_exit(127);
  }
  waitpid($pid, 0);
  my $code = $? >> 8;
  return $code == 0 if $? == 0 || $code == $no_setsid;
  fcntl($errors, F_SETFL, O_NONBLOCK); # a program of the container may still have the pipe open
  sysread($errors, my $text, 4096);
  syswrite(STDERR, $text // '');
  exit($code || 1);
}

# Makes this process end with the starter. A process that ignores the hang-up would otherwise stay on the host.
sub end_with_starter {
  end_with_parent();
  exit if getppid() == 1;
}
