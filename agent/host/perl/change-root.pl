# Changes files in a guest's root. Arguments: the root, then any of these changes:
# `directory PATH MODE`, `file PATH MODE CONTENT`, `remove PATH`, `password HASH`; `existing PATH MODE CONTENT`, only if the
# file exists; `unchanged PATH OLD CONTENT`, only if the file has the old content or does not exist; `key CONTENT`, which
# sets root's authorized keys (empty: no key); `line PATH FIRST LINE CONTENT`, which replaces all lines that begin with the
# word FIRST by LINE. If that file does not exist, it gets CONTENT. A link or a file of 1 MiB or more stays as it is.
#
# Existing files are replaced by new ones and never opened for writing. Only regular files of limited size are read, and
# their type is checked before they are opened.
#
# System calls: openat2 (open_beneath and open_in_root of common.pl), so that no link, mount or `..` leads out of the root.
# Node and the tools follow them. ioctl with FS_IOC_GETFLAGS and FS_IOC_SETFLAGS, which would otherwise need processes.
use strict;
use Fcntl qw(:DEFAULT :mode);
use IO::Handle;
require(__FILE__ =~ s{[^/]+\z}{common.pl}r);

my $largest = 1 << 20;
my ($root, @changes) = @ARGV;
my $top = open_top($root);

sub beneath {
  my ($path, $flags) = @_;
  return open_beneath($top, $path, $flags) // die "$path: $!\n";
}

# Opens root's home. Follows links inside the root, as processes of the guest do.
sub open_home {
  my ($path) = @_;
  return open_in_root($top, $path, O_RDONLY | O_DIRECTORY);
}

sub place {
  my ($directory, $name) = $_[0] =~ m{^(.+)/([^/]+)$};
  my $handle = beneath($directory, O_RDONLY | O_DIRECTORY);
  return ($handle, '/proc/self/fd/' . fileno($handle) . "/$name");
}

sub replace {
  my ($path, $content, $mode, $uid, $gid) = @_;
  my ($directory, $target) = place($path);
  unlock_handle($directory);
  write_beside($target, @_);
}

# Writes a new file under a random name, so that no file of the guest has that name, and then renames it.
sub write_beside {
  my ($target, $path, $content, $mode, $uid, $gid) = @_;
  remove_stale($target);
  my $new = "$target.berth-" . random_hex();
  sysopen(my $file, $new, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600) or die "$path: $!\n";
  eval {
    chown($uid, $gid, $file) && chmod($mode, $file) or die "$path: $!\n";
    print $file $content and $file->flush or die "$path: $!\n";
    unlock($target);
    rename($new, $target) or die "$path: $!\n";
    1;
  } or do { my $why = $@; unlink $new; die $why };
  $file->sync or die "$path: $!\n"; # after the rename, so that the new name is on the disk, too
}

sub random_hex {
  sysopen(my $random, '/dev/urandom', O_RDONLY) or die "/dev/urandom: $!\n";
  (sysread($random, my $bytes, 8) // 0) == 8 or die "/dev/urandom: $!\n";
  return unpack('H*', $bytes);
}

# Removes files that killed runs of this program have left. Files of older versions have no random name.
sub remove_stale {
  my ($directory, $name) = $_[0] =~ m{^(.+)/([^/]+)$};
  opendir(my $names, "$directory/.") or return;
  while (defined(my $other = readdir $names)) {
    unlink "$directory/$other" if $other =~ /^\Q$name\E\.berth(?:-[0-9a-f]{16})?\z/;
  }
}

sub make_directory {
  my ($path, $mode) = @_;
  my ($directory, $target) = place("./$path");
  mkdir($target, $mode) or $!{EEXIST} or die "$path: $!\n";
  beneath($path, O_RDONLY | O_DIRECTORY);
}

# Reads a regular file. @returns its text, mode, user and group; nothing if it does not exist
sub read_plain {
  my ($path) = @_;
  my $old = open_beneath($top, $path, path_only());
  if (!$old) { $!{ENOENT} ? return : die "$path: $!\n" }
  my ($mode, $uid, $gid, $size) = (stat $old)[2, 4, 5, 7];
  die "$path: not a plain file, or too large\n" unless S_ISREG($mode) && $size < $largest;
  my $plain = reopen($old) // die "$path: $!\n";
  local $/;
  return (<$plain> // '', S_IMODE($mode), $uid, $gid);
}

sub set_password {
  my ($path, $hash) = @_;
  my ($text, @attributes) = read_plain($path) or return 0;
  $text =~ s/^root:[^:\n]*/root:$hash/m or return 0;
  replace($path, $text, @attributes);
  return 1;
}

sub set_line {
  my ($path, $first, $line, $content) = @_;
  my ($text, @attributes) = eval { read_plain($path) };
  return if $@; # a link or a large file
  return replace($path, $content, 0644, 0, 0) if !defined $text;
  $text =~ s/\n?\z/\n/ if $text ne '';
  my $found = 0;
  $text =~ s/^[ \t]*\Q$first\E[ \t][^\n]*\n/$found++ ? '' : "$line\n"/gme;
  replace($path, $found ? $text : "$text$line\n", @attributes);
}

sub exists_here { my ($target) = @_; return scalar lstat $target }

# Renames whatever is at this path, instead of deleting it.
sub move_aside {
  my ($target) = @_;
  unlock($target);
  for my $number ('', 1 .. 99) {
    my $aside = "$target.old$number";
    next if exists_here($aside);
    rename($target, $aside) or die "renaming the old file: $!\n";
    return;
  }
  die "all names for the old file, from .old to .old99, are in use\n";
}

# Removes the flags "immutable" and "append-only" of a file, by FS_IOC_GETFLAGS and FS_IOC_SETFLAGS.
sub unlock_handle {
  my ($handle) = @_;
  my $flags = pack('L', 0);
  ioctl($handle, 0x80086601, $flags) or return;
  my $open = pack('L', unpack('L', $flags) & ~0x30);
  ioctl($handle, 0x40086602, $open) if $open ne $flags;
}

sub unlock {
  my ($target) = @_;
  my $mode = (lstat $target)[2] // 0;
  return unless S_ISREG($mode) || S_ISDIR($mode); # opening a device could have side effects
  sysopen(my $old, $target, O_RDONLY | O_NOFOLLOW | O_NONBLOCK) or return;
  unlock_handle($old);
}

# Opens or creates a directory that only root may write to, as sshd requires (StrictModes of sshd_config(5)).
sub own_directory {
  my ($above, $name, $mode) = @_;
  my $target = '/proc/self/fd/' . fileno($above) . "/$name";
  move_aside($target) if exists_here($target) && !S_ISDIR((lstat _)[2]);
  mkdir($target, $mode) or $!{EEXIST} or die "$name: $!\n";
  sysopen(my $handle, $target, O_RDONLY | O_DIRECTORY | O_NOFOLLOW) or die "$name: $!\n";
  make_private($handle, $mode);
  return $handle;
}

sub make_private {
  my ($handle, $mode) = @_;
  unlock_handle($handle);
  chown(0, 0, $handle) && chmod($mode, $handle) or die "owner and mode of a directory: $!\n";
}

sub find_home {
  my ($text) = eval { read_plain('etc/passwd') };
  my ($home) = ($text // '') =~ m{^root:[^:\n]*:[^:\n]*:[^:\n]*:[^:\n]*:/+([^:\n]+?)/*(?::|$)}m;
  return $home // 'root';
}

sub make_home {
  my $home = find_home();
  my $handle = open_home($home);
  if (!$handle) { # the home is missing, is a file, or is a dangling link
    $home = 'root';
    open(my $above, '<&', $top) or die "root: $!\n";
    return own_directory($above, $home, 0700);
  }
  make_private($handle, (S_IMODE((stat $handle)[2]) & ~022) | 0700);
  return $handle;
}

sub set_key {
  my ($content) = @_;
  return if $content eq '' && !open_home(find_home() . '/.ssh');
  my $directory = own_directory(make_home(), '.ssh', 0700);
  my $target = '/proc/self/fd/' . fileno($directory) . '/authorized_keys';
  my $is_file = exists_here($target) && S_ISREG((lstat _)[2]);
  move_aside($target) if exists_here($target) && ($content eq '' || !$is_file);
  write_beside($target, 'authorized_keys', $content, 0600, 0, 0) if $content ne '';
}

sub remove {
  my ($path) = @_;
  my ($directory, $target) = eval { place($path) } or return;
  unlink $target or $!{ENOENT} or $!{EISDIR} or die "$path: $!\n";
}

sub replace_unchanged {
  my ($path, $old, $content) = @_;
  my ($directory, $target) = place($path);
  my ($text) = eval { read_plain($path) };
  replace($path, $content, 0644, 0, 0) if !exists_here($target) || defined $text && $text eq $old;
}

sub replace_existing {
  my ($path, $mode, $content) = @_;
  my ($directory, $target) = eval { place($path) } or return;
  replace($path, $content, $mode, 0, 0) if exists_here($target) && !S_ISDIR((lstat _)[2]);
}

while (defined(my $kind = shift @changes)) {
  if ($kind eq 'password') {
    my $hash = shift @changes;
    set_password('etc/shadow', $hash) || set_password('etc/passwd', $hash) || die "etc/shadow and etc/passwd have no entry for root\n";
  } elsif ($kind eq 'key') { set_key(shift @changes) }
  elsif ($kind eq 'line') { set_line(splice(@changes, 0, 4)) }
  elsif ($kind eq 'unchanged') { replace_unchanged(splice(@changes, 0, 3)) }
  elsif ($kind eq 'remove') { remove(shift @changes) }
  elsif ($kind eq 'existing') { replace_existing(splice(@changes, 0, 3)) }
  else {
    my ($path, $mode) = splice(@changes, 0, 2);
    if ($kind eq 'directory') { make_directory($path, $mode) }
    else { replace($path, shift @changes, $mode, 0, 0) }
  }
}
