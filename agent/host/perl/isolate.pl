# Functions for programs that process data from guests. Programs load this file like common.pl, which it loads itself.
#
# - enter_empty_root(ENTRIES) gives the process a separate mount namespace. Its root contains only the system's programs,
#   read-only, and the entries, and has no /proc. Each entry is [KIND, SOURCE, TARGET]. KIND is `read` or `write` for
#   files and directories, `device` for device nodes, and `tree` or `opened` for the mount of a directory or file that was
#   opened before, whose descriptor is SOURCE. The default of TARGET is SOURCE.
# - own_mounts() creates the mount namespace earlier, so that processes that are forked in between share it.
# - keep_only(DESCRIPTORS) closes all other descriptors at exec.
# - own_processes() makes the next forked process the first one of a new process namespace.
#
# System calls: unshare, open_tree, mount_setattr, move_mount, mount, pivot_root, umount2, close_range. They affect the
# calling process and must be made between fork and exec.
package main;
use strict;
use POSIX ();
require(__FILE__ =~ s{[^/]+\z}{common.pl}r);

sub own_processes {
  ask('process namespace', 'unshare', 0x20000000);
}

# Sets attributes of a mount by mount_setattr(2): 1 is read-only, 2 nosuid, 4 nodev, 8 noexec.
sub isolate_set {
  my ($fd, $path, $flags, $set, $propagation) = @_;
  my $attributes = pack('Q4', $set, 0, $propagation, 0);
  ask("mount $path", 'mount_setattr', $fd, "$path", $flags, $attributes, length $attributes);
}

sub isolate_target {
  my ($path, $is_directory) = @_;
  my @names = grep { length } split m{/}, $path;
  my $last = pop @names;
  my $at = '.';
  for my $name (@names) { $at .= "/$name"; mkdir $at, 0755 }
  if ($is_directory) { mkdir "$at/$last", 0755 }
  else { open(my $file, '>', "$at/$last") or die "$path: $!\n" }
}

my %attributes_of = (read => 1 | 2 | 4, write => 2 | 4 | 8, device => 2 | 8);

my ($here_fd, $all_mounts, $own_mounts) = (-100, 0x8000, 0);

sub own_mounts {
  ask('mounts', 'unshare', 0x00020000);
  isolate_set($here_fd, '/', $all_mounts, 0, 1 << 18); # makes all mounts private
  $own_mounts = 1;
}

# Changes the root of all processes in this mount namespace.
sub enter_empty_root {
  my @entries = @_;
  my ($here, $empty_path, $no_follow, $place) = ($here_fd, 0x1000, 0x100, '/mnt');
  own_mounts() unless $own_mounts;
  my $usual_umask = umask 022; # so that every user may enter /dev
  my @mounts;
  for my $entry (system_entries(), @entries) {
    my ($kind, $source, $target) = @$entry;
    if ($kind eq 'tree' || $kind eq 'opened') { push @mounts, [$source, $target, $kind eq 'tree']; next }
    my $fd = ask("open $source", 'open_tree', $here, "$source", 1 | $no_follow | close_on_exec());
    isolate_set($fd, '', $empty_path, $attributes_of{$kind}, 0);
    push @mounts, [$fd, $target // $source, -d $source];
  }
  my ($type, $options) = ('tmpfs', 'mode=755,size=1m');
  ask('empty root', 'mount', "$type", "$place", "$type", 2 | 4 | 8, "$options");
  chdir $place or die "$place: $!\n";
  for (@mounts) {
    my ($fd, $target, $is_directory) = @$_;
    isolate_target($target, $is_directory);
    ask("mount $target", 'move_mount', $fd, '', $here, ".$target", 4);
    POSIX::close($fd);
  }
  for my $name (grep { -l "/$_" } qw(bin sbin lib lib32 lib64 libx32)) { symlink readlink("/$name"), $name }
  ask('pivot_root', 'pivot_root', '.', '.');
  ask('old root', 'umount2', '.', 2); # MNT_DETACH
  chdir '/' or die "/: $!\n";
  umask $usual_umask;
  isolate_set($here, '/', 0, 1, 0);
}

# Returns the directories of programs and libraries in Debian, with and without a merged /usr.
sub system_entries {
  my @directories = grep { -d "/$_" && !-l "/$_" } qw(usr bin sbin lib lib32 lib64 libx32);
  my @devices = map { ['device', "/dev/$_"] } grep { -e "/dev/$_" } qw(null zero urandom);
  return ((map { ['read', "/$_"] } @directories), @devices);
}

sub keep_only {
  my ($previous, $on_exec) = (2, 4);
  for my $fd (sort { $a <=> $b } grep { $_ > 2 } @_) {
    ask('close_range', 'close_range', $previous + 1, $fd - 1, $on_exec) if $fd > $previous + 1;
    $previous = $fd;
  }
  ask('close_range', 'close_range', $previous + 1, 0xffffffff, $on_exec);
}

1;
