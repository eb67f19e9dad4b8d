# Before lxc-attach with a shell on a terminal of the container's own, which nobody on the host passes on. File 3 is the
# master of the terminal; lxc-attach has no file of the starter, and gets the container's side of the terminal as file 3.
# $ARGV[0]: root of the container on the host; then what lxc-attach is given, a script at the end.
use strict;
use Fcntl;
use POSIX ();

# asm-generic/ioctls.h: a terminal is locked at first, and has no other name that a container could not have replaced.
my ($set_lock, $open_peer, $set_controlling, $set_size) = (0x40045431, 0x5441, 0x540E, 0x5414);
my $no_setsid = 99;

$^F = 3; # stays open for lxc-attach
umask 022;
my $root = shift @ARGV;
open(my $master, '+<&=', 3) or die "file 3: $!\n";
close_others();
keep_open();
my $unlocked = pack('i', 0);
ioctl($master, $set_lock, $unlocked) or die "unlock the terminal: $!\n";
my $peer = ioctl($master, $open_peer, O_RDWR | O_NOCTTY) or die "open the terminal: $!\n";
POSIX::dup2($peer, 3) or die "file 3: $!\n";
open(my $terminal, '+<&=', 3) or die "file 3: $!\n";
chown($root, -1, $terminal) or die "own the terminal: $!\n";
close_others();

# Files of the starter may be others' terminals.
sub close_others {
  opendir(my $files, '/proc/self/fd') or die "$!\n";
  POSIX::close($_) for grep { $_ > 3 } readdir $files;
}

# Setting a terminal's size and closing it wait for whoever uses the container's side, which a hostile container can draw
# out. The starter has the terminals of all guests and must not wait: a process of its own does both for it. File 0 brings
# sizes, as rows and columns of 16 bits; its end is that of the terminal.
sub keep_open {
  my $pid = fork // die "fork: $!\n";
  if ($pid) {
    open(STDIN, '<', '/dev/null') or die "$!\n";
    return;
  }
  setpgrp; # no key of the terminal's ends it
  open(STDERR, '>', '/dev/null');
  while ((read(STDIN, my $size, 4) // 0) == 4) { ioctl($master, $set_size, $size . pack('S2', 0, 0)) }
  POSIX::_exit(0);
}

# The shell should lead a session, which takes a program of the container's. Without one the terminal is that of
# lxc-attach's session, which the shell inherits. What runs in the container gets no file of the starter's.
sub attach_on_terminal {
  end_with_starter();
  my @attach = @_;
  my $script = pop @attach;
  my $can_lead = can_lead_session(@attach);
  ioctl($terminal, $set_controlling, 0) unless $can_lead;
  open(STDERR, '>', '/dev/null') or die "$!\n";
  exec { $attach[0] } @attach, $script, 'sh', $can_lead ? 'setsid -c' : '';
}

# Tries whether the container can be attached to at all, and ends with what lxc-attach says where it cannot.
sub can_lead_session {
  my @attach = @_;
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
  fcntl($errors, F_SETFL, O_NONBLOCK); # a program of the container's may have it open still
  sysread($errors, my $text, 4096);
  syswrite(STDERR, $text // '');
  exit($code || 1);
}

# What no hang-up ends would stay on the host.
sub end_with_starter {
  my $prctl = (POSIX::uname())[4] eq 'aarch64' ? 167 : 157;
  syscall($prctl, 1, POSIX::SIGKILL(), 0, 0, 0); # PR_SET_PDEATHSIG
  exit if getppid() == 1;
}
