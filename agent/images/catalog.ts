import { arch } from 'node:os'
import type { FirmwareWish } from '../host/guest/firmware.js'

/** Where an image comes from. */
export type ImageSource =
  /** Built here from a Debian mirror's packages; the suite as the mirror names it. */
  | { readonly kind: 'built'; readonly suite: string }
  /** The newest version on the configured server of images, by the names it has there. */
  | {
      readonly kind: 'simplestreams'
      readonly distro: string
      readonly release: string
      readonly variant: string
      /** Kind of file, e.g. `root.tar.xz`. */
      readonly fileType: string
    }
  /** A file somewhere; the SHA-256 in hexadecimal. */
  | { readonly kind: 'url'; readonly url: string; readonly sha256: string }

/** `iso`: a CD; `rescue`: a system that mends disks of virtual machines. Guests are made from the others. */
export type ImageType = 'lxc' | 'kvm' | 'iso' | 'rescue'

/** A template that guests can be made from, and where its image comes from. */
export interface CatalogEntry {
  readonly id: string
  readonly name: string
  readonly distro: string
  /** As people call it. */
  readonly release: string
  /** Debian's name of the architecture. */
  readonly arch: string
  readonly variant: string
  readonly description: string
  readonly virtualization: ImageType
  readonly os: 'linux' | 'windows'
  /** Of a virtual machine; absent: a plain one. */
  readonly machine?: FirmwareWish
  readonly source: ImageSource
}

const debianArchitectures: Readonly<Record<string, string>> = {
  x64: 'amd64',
  arm64: 'arm64',
  ppc64: 'ppc64el',
}
/** Of this host, as Debian names it. */
export const hostArch = debianArchitectures[arch()] ?? arch()

/** What a server of images has: our id and name, then its own names of distribution and release. */
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

/** What guests of a kind boot in rescue where nothing else is named. */
export const usualRescue: Readonly<Record<'lxc' | 'kvm', string>> = { lxc: 'debian-12', kvm: 'rescue-kvm' }

/** All that this version of the program knows, for every driver there may be. */
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

/** What a build needs of a template. */
export interface Recipe {
  readonly id: string
  readonly arch: string
  readonly suite: string
  readonly virtualization: ImageType
}

/** Undefined: it is not built here. */
export function findRecipe({ id, arch, source, virtualization }: CatalogEntry): Recipe | undefined {
  return source.kind === 'built' ? { id, arch, suite: source.suite, virtualization } : undefined
}

/** Of containers that are built, for tests of what a build does. */
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

/** A virtual machine of it. */
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

/** Of the virtual machine that has the same system as a container's template. */
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

/** Disks that set themselves up by cloud-init. */
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
