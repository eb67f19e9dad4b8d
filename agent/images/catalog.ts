import { arch } from 'node:os'
import type { FirmwareWish } from '../host/guest/firmware.js'

export type ImageSource =
  /** Image that this host builds from packages of a Debian mirror. `suite` is Debian's name of the release. */
  | { readonly kind: 'built'; readonly suite: string }
  /** Newest version of an image on the configured image server. All names are those of the server. */
  | {
      readonly kind: 'simplestreams'
      readonly distro: string
      readonly release: string
      readonly variant: string
      /** The server's name of the kind of file, for example `root.tar.xz`. */
      readonly fileType: string
    }
  /** An image file at any URL. `sha256` is hexadecimal. */
  | { readonly kind: 'url'; readonly url: string; readonly sha256: string }

/** `iso`: a CD; `rescue`: a rescue system for virtual machines. Guests are created only from `lxc` and `kvm`. */
export type ImageType = 'lxc' | 'kvm' | 'iso' | 'rescue'

/** A template for guests, and the source of its image. */
export interface CatalogEntry {
  readonly id: string
  readonly name: string
  readonly distro: string
  /** Name of the release that users see. */
  readonly release: string
  /** Debian's name of the architecture. */
  readonly arch: string
  readonly variant: string
  readonly description: string
  readonly virtualization: ImageType
  readonly os: 'linux' | 'windows'
  /** Firmware that a virtual machine needs. Default: a BIOS. */
  readonly machine?: FirmwareWish
  readonly source: ImageSource
}

const debianArchitectures: Readonly<Record<string, string>> = {
  x64: 'amd64',
  arm64: 'arm64',
  ppc64: 'ppc64el',
}
/** Debian's name of this host's architecture. */
export const hostArch = debianArchitectures[arch()] ?? arch()

/** An image of the image server: Berth's id and name, then distribution and release as the server names them. */
type CatalogLine = readonly [id: string, name: string, distro: string, release: string]

const offered: readonly CatalogLine[] = [
  ['ubuntu-22.04', 'Ubuntu 22.04', 'ubuntu', 'jammy'],
  ['ubuntu-24.04', 'Ubuntu 24.04', 'ubuntu', 'noble'],
  ['alpine-3.22', 'Alpine 3.22', 'alpine', '3.22'],
  ['alpine-edge', 'Alpine edge', 'alpine', 'edge'],
  ['rocky-9', 'Rocky Linux 9', 'rockylinux', '9'],
  ['rocky-10', 'Rocky Linux 10', 'rockylinux', '10'],
  ['alma-9', 'AlmaLinux 9', 'almalinux', '9'],
  ['alma-10', 'AlmaLinux 10', 'almalinux', '10'],
  ['fedora-43', 'Fedora 43', 'fedora', '43'],
  ['arch', 'Arch Linux', 'archlinux', 'current'],
  ['opensuse-tumbleweed', 'openSUSE Tumbleweed', 'opensuse', 'tumbleweed'],
]

const debianOffered: readonly CatalogLine[] = [
  ['debian-12', 'Debian 12', 'debian', 'bookworm'],
  ['debian-13', 'Debian 13', 'debian', 'trixie'],
]

/** Ids of the templates that guests of each kind boot in rescue mode by default. */
export const usualRescue: Readonly<Record<'lxc' | 'kvm', string>> = { lxc: 'debian-12', kvm: 'rescue-kvm' }

/** All templates that this version of the agent offers, for containers and virtual machines. */
export const catalog: readonly CatalogEntry[] = [
  ...debianOffered.map(built),
  ...offered.map(container),
  ...debianOffered.map(builtDisk),
  ...offered.map(cloudImage),
  rescueDisk(),
]

export function findCatalogEntry(id: string): CatalogEntry | undefined {
  return catalog.find((entry) => entry.id === id)
}

/** The properties of a template that are needed to build its image. */
export interface Recipe {
  readonly id: string
  readonly arch: string
  readonly suite: string
  readonly virtualization: ImageType
}

/** Returns the data from which this host builds a template's image; undefined if it does not build the image. */
export function findRecipe({ id, arch, source, virtualization }: CatalogEntry): Recipe | undefined {
  return source.kind === 'built' ? { id, arch, suite: source.suite, virtualization } : undefined
}

/** Build data of all container templates whose images are built on the host. For tests. */
export const recipes: readonly Recipe[] = catalog
  .filter(({ virtualization }) => virtualization === 'lxc')
  .flatMap((entry) => findRecipe(entry) ?? [])

function described([id, name, distro, release]: CatalogLine) {
  const [, known = release] = /-(.+)$/.exec(id) ?? []
  return { id, name, distro, release: known, arch: hostArch, os: 'linux' } as const
}

function built(from: CatalogLine): CatalogEntry {
  const [, name, , suite] = from
  return {
    ...described(from),
    variant: 'default',
    virtualization: 'lxc',
    description: `${name} (${suite}), minimal, with systemd and SSH`,
    source: { kind: 'built', suite },
  }
}

function container(from: CatalogLine): CatalogEntry {
  const [, name, distro, release] = from
  return {
    ...described(from),
    variant: 'default',
    virtualization: 'lxc',
    description: `${name}, minimal; SSH must be installed`,
    source: { kind: 'simplestreams', distro, release, variant: 'default', fileType: 'root.tar.xz' },
  }
}

/** Returns the template for a virtual machine with the same system as the given template for containers. */
function builtDisk(from: CatalogLine): CatalogEntry {
  const [id, name, , suite] = from
  return {
    ...described(from),
    id: diskIdOf(id),
    variant: 'cloud',
    virtualization: 'kvm',
    description: `${name} (${suite}), a disk with cloud-init, guest agent and SSH`,
    source: { kind: 'built', suite },
  }
}

/** Returns the id of the virtual machine template with the same system as a container's template. */
export function diskIdOf(id: string): string {
  return `${id}-kvm`
}

function rescueDisk(): CatalogEntry {
  return {
    ...described([usualRescue.kvm, 'Rescue system', 'debian', 'bookworm']),
    release: '12',
    variant: 'rescue',
    virtualization: 'rescue',
    description: 'Debian 12 with disk tools, for repairing the disk of a virtual machine',
    source: { kind: 'built', suite: 'bookworm' },
  }
}

/** Returns a template for a virtual machine with cloud-init. The image comes from the image server. */
function cloudImage(from: CatalogLine): CatalogEntry {
  const [id, name, distro, release] = from
  return {
    ...described(from),
    id: diskIdOf(id),
    variant: 'cloud',
    virtualization: 'kvm',
    description: `${name}, cloud image with cloud-init`,
    source: { kind: 'simplestreams', distro, release, variant: 'cloud', fileType: 'disk-kvm.img' },
  }
}
