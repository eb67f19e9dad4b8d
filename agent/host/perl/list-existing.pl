# Prints those of the paths that are regular files in a guest's root, one per line. Arguments: the root, then the paths.
#
# System calls: openat2 (open_beneath of common.pl), so that no link, mount or `..` leads out of the root. Node and the
# tools follow them. No file is opened for reading.
use strict;
use Fcntl qw(:DEFAULT :mode);
require(__FILE__ =~ s{[^/]+\z}{common.pl}r);

my ($root, @paths) = @ARGV;
my $top = open_top($root);
for my $path (@paths) {
  my $found = open_beneath($top, $path, path_only()) or next;
  print "$path\n" if S_ISREG((stat $found)[2]);
}
