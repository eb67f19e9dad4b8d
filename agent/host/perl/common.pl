# Functions that the programs in this directory share. A program loads them with this line:
#
#   require(__FILE__ =~ s{[^/]+\z}{common.pl}r);
#
# The launcher has already loaded this file, so programs that it runs do not read the file again. Programs must not define
# functions with the same names.
#
# Every program lists at its beginning the system calls for which it exists. Node cannot make arbitrary system calls or
# ioctls. Besides, most of these affect the calling process and must be made between fork and exec.
package main;
use strict;
use warnings;
use Fcntl qw(:DEFAULT :mode);
use POSIX ();

# Numbers of system calls: on x86_64, then on machines that use asm-generic/unistd.h. One number applies to all machines.
my %numbers = (
  capset => [126, 91],
  clone => [56, 220],
  fgetxattr => [193, 10],
  flistxattr => [196, 13],
  fsetxattr => [190, 7],
  mount => [165, 40],
  pivot_root => [155, 41],
  prctl => [157, 167],
  prlimit64 => [302, 261],
  renameat2 => [316, 276],
  setgroups => [116, 159],
  setns => [308, 268],
  setresgid => [119, 149],
  setresuid => [117, 147],
  signalfd4 => [289, 74],
  statx => [332, 291],
  umount2 => [166, 39],
  unshare => [272, 97],
  utimensat => [280, 88],
  close_range => 436,
  mount_setattr => 442,
  move_mount => 429,
  open_tree => 428,
  openat2 => 437,
  pidfd_getfd => 438,
  pidfd_open => 434,
);
my $machine = (POSIX::uname())[4];
my $column = { x86_64 => 0, aarch64 => 1, riscv64 => 1 }->{$machine};

sub number_of {
  my ($name) = @_;
  my $number = $numbers{$name} // die "$name: not in the table of system calls\n";
  return $number unless ref $number;
  return $number->[ $column // die "$name: the system call's number on $machine is not known\n" ];
}

# call(NAME, ARGUMENTS) makes a system call. String arguments must be variables, because the kernel can write into them.
# @returns -1 on failure, with the reason in $!
sub call {
  my $name = shift;
  return syscall(number_of($name), @_);
}

# ask(WHAT, NAME, ARGUMENTS) makes a system call with copies of the arguments. On failure it dies with "WHAT: reason".
sub ask {
  my ($what, $name, @arguments) = @_;
  my $answer = call($name, @arguments);
  die "$what: $!\n" if $answer < 0;
  return $answer;
}

# Makes the kernel kill this process when its parent ends (PR_SET_PDEATHSIG of prctl(2)). A change of user revokes this.
sub end_with_parent {
  call('prctl', 1, POSIX::SIGKILL(), 0, 0, 0);
}

# Limits the memory of this process to 512 MiB (RLIMIT_DATA). For programs that read guests' trees, because a tree could
# make them use any amount of memory. These programs also have lower limits of their own.
sub bound_memory {
  my $most = 512 << 20;
  ask('memory limit', 'prlimit64', 0, 2, pack('Q2', $most, $most), 0);
}

# confine(HEX) gives the process and all its children a seccomp filter that cannot be removed (PR_SET_SECCOMP of prctl(2)).
# HEX contains the bytes of struct sock_filter.
sub confine {
  my ($hex) = @_;
  my $filter = pack('H*', $hex);
  die "seccomp: the filter is empty or incomplete\n" if $filter eq '' || length($filter) % 8;
  ask('seccomp', 'prctl', 22, 2, pack('S x6 P', length($filter) / 8, $filter), 0, 0);
}

sub path_only { 010000000 } # O_PATH
sub close_on_exec { 02000000 } # O_CLOEXEC, which Fcntl of Perl 5.36 does not have

# Opens the root directory of a guest or of another tree.
sub open_top {
  my ($path) = @_;
  sysopen(my $top, $path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW) or die "$path: $!\n";
  return $top;
}

# Opens a path in a guest's tree, which the guest may change at any time. openat2(2) guarantees that no link, mount or
# `..` leads out of the tree. This function also refuses all links inside the tree (RESOLVE_NO_XDEV,
# RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH).
# @returns undef on failure, with the reason in $!
sub open_beneath {
  my ($top, $path, $flags) = @_;
  return open_resolving($top, $path, $flags, 0x0f);
}

# Like open_beneath, but follows links inside the tree (RESOLVE_NO_XDEV, RESOLVE_NO_MAGICLINKS, RESOLVE_IN_ROOT).
sub open_in_root {
  my ($top, $path, $flags) = @_;
  return open_resolving($top, $path, $flags, 0x13);
}

sub open_resolving {
  my ($top, $path, $flags, $resolve) = @_;
  my $how = pack('Q3', $flags | close_on_exec(), 0, $resolve);
  my $fd = call('openat2', fileno $top, "$path", $how, length $how);
  return undef if $fd < 0;
  open(my $handle, '<&=', $fd) or return undef;
  return $handle;
}

# Opens the file of an O_PATH handle for reading. Callers check its type first: opening a device has side effects.
sub reopen {
  my ($handle) = @_;
  open(my $plain, '<:raw', '/proc/self/fd/' . fileno $handle) or return undef;
  return $plain;
}

1;
