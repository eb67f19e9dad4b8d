import type { EnabledImage } from '../../api/types.ts'

type Version = Pick<EnabledImage, 'id' | 'name' | 'distro' | 'release' | 'arch'>
/** The versions of one distribution. */
export interface ImageFamily<V extends Version = Version> {
  readonly distro: string
  readonly name: string
  /** The newest version comes first. It is never empty. */
  readonly versions: readonly [V, ...V[]]
}

const names: Readonly<Record<string, string>> = {
  almalinux: 'AlmaLinux',
  archlinux: 'Arch Linux',
  centos: 'CentOS',
  freebsd: 'FreeBSD',
  nixos: 'NixOS',
  opensuse: 'openSUSE',
  openwrt: 'OpenWrt',
  rockylinux: 'Rocky Linux',
}

/** Returns the name of a distribution for people. */
export function familyName(distro: string): string {
  return names[distro] ?? distro.charAt(0).toUpperCase() + distro.slice(1)
}

/** Groups images by distribution, in the order of the names. */
export function groupFamilies<V extends Version>(images: readonly V[]): ImageFamily<V>[] {
  const families = new Map<string, [V, ...V[]]>()
  for (const image of images) {
    const family = families.get(image.distro)
    if (family) family.push(image)
    else families.set(image.distro, [image])
  }
  return [...families]
    .map(([distro, versions]) => ({ distro, name: familyName(distro), versions: newestFirst(versions) }))
    .sort((a, b) => a.name.localeCompare(b.name, 'en'))
}

function newestFirst<V extends Version>(versions: [V, ...V[]]): [V, ...V[]] {
  return versions.sort((a, b) => b.name.localeCompare(a.name, 'en', { numeric: true }))
}

/** Describes a version: its name, and the release and architecture that the name does not contain. */
export function versionText({ name, release, arch }: Version): string {
  return name.includes(release) ? `${name} · ${arch}` : `${name} · ${release} · ${arch}`
}

/** Colours of badges. White letters have enough contrast on all of them. */
const colours = ['#1d4ed8', '#b91c1c', '#047857', '#7c3aed', '#b45309', '#0e7490', '#be185d', '#4d7c0f'] as const

/** Returns the colour of a distribution's badge. It is always the same for the same distribution. */
export function badgeColour(distro: string): string {
  const sum = [...distro].reduce((total, letter) => (total * 31 + letter.charCodeAt(0)) % 9973, 7)
  return colours[sum % colours.length]!
}
