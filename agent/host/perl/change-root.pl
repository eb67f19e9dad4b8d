# Changes files in a guest's root. Arguments: the root, then the changes: `directory PATH MODE`,
# `file PATH MODE CONTENT`, `password HASH`.
#
# What a guest has in its root is its own choice. openat2(2) with these flags is the kernel's promise that no link,
# mount or `..` leads out of it, whatever is there and whoever changes it meanwhile: RESOLVE_BENEATH,
# RESOLVE_NO_SYMLINKS, RESOLVE_NO_MAGICLINKS, RESOLVE_NO_XDEV. Nothing that is there is opened for writing: a new
# file takes its place. What is read is a plain file of bounded size, known as one before it is opened.
use Fcntl qw(:DEFAULT :mode);
my $openat2 = 437;
my $resolve = 0x0f;
my $largest = 1 << 20;
my ($root, @changes) = @ARGV;
sysopen(my $top, $root, O_RDONLY | O_DIRECTORY | O_NOFOLLOW) or die "root: $!\n";

sub beneath {
  my ($path, $flags) = @_;
  my $how = pack('Q3', $flags | 02000000, 0, $resolve); # O_CLOEXEC
  my $fd = syscall($openat2, fileno $top, "$path", $how, length $how);
  die "$path: $!\n" if $fd < 0;
  open(my $handle, '<&=', $fd) or die "$path: $!\n";
  return $handle;
}

sub place {
  my ($directory, $name) = $_[0] =~ m{^(.+)/([^/]+)$};
  my $handle = beneath($directory, O_RDONLY | O_DIRECTORY);
  return ($handle, '/proc/self/fd/' . fileno($handle) . "/$name");
}

sub replace {
  my ($path, $content, $mode, $uid, $gid) = @_;
  my ($directory, $target) = place($path);
  unlink "$target.berth";
  sysopen(my $file, "$target.berth", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600) or die "$path: $!\n";
  chown($uid, $gid, $file) && chmod($mode, $file) or die "$path: $!\n";
  print $file $content and $file->flush or die "$path: $!\n";
  rename("$target.berth", $target) or die "$path: $!\n";
  $file->sync or die "$path: $!\n"; # last, for its new name to be kept as well
}

sub make_directory {
  my ($path, $mode) = @_;
  my ($directory, $target) = place("./$path");
  mkdir($target, $mode) or $!{EEXIST} or die "$path: $!\n";
  beneath($path, O_RDONLY | O_DIRECTORY);
}

sub set_password {
  my ($path, $hash) = @_;
  my $old = eval { beneath($path, 010000000) }; # O_PATH: opening a device may do something
  if (!$old) { $!{ENOENT} ? return 0 : die $@ }
  my ($mode, $uid, $gid, $size) = (stat $old)[2, 4, 5, 7];
  die "$path: no plain file\n" unless S_ISREG($mode) && $size < $largest;
  open(my $plain, '<', '/proc/self/fd/' . fileno $old) or die "$path: $!\n";
  local $/;
  my $text = <$plain>;
  $text =~ s/^root:[^:\n]*/root:$hash/m or return 0;
  replace($path, $text, S_IMODE($mode), $uid, $gid);
  return 1;
}

while (defined(my $kind = shift @changes)) {
  if ($kind eq 'password') {
    my $hash = shift @changes;
    set_password('etc/shadow', $hash) || set_password('etc/passwd', $hash) || die "no root in etc/shadow\n";
  } else {
    my ($path, $mode) = splice(@changes, 0, 2);
    if ($kind eq 'directory') { make_directory($path, $mode) }
    else { replace($path, shift @changes, $mode, 0, 0) }
  }
}
