import { arch } from 'node:os'

/** A template that this program can make an image of. */
export interface CatalogEntry {
  readonly id: string
  readonly name: string
  readonly distro: string
  /** As people call it. */
  readonly release: string
  /** Debian's name of the architecture. */
  readonly arch: string
  readonly description: string
  readonly virtualization: 'lxc'
  /** Name of the suite on the mirror. */
  readonly suite: string
}

const debianArchitectures: Readonly<Record<string, string>> = {
  x64: 'amd64',
  arm64: 'arm64',
  ppc64: 'ppc64el',
}
const hostArch = debianArchitectures[arch()] ?? arch()

export const catalog: readonly CatalogEntry[] = [debian('12', 'bookworm'), debian('13', 'trixie')]

export function findCatalogEntry(id: string): CatalogEntry | undefined {
  return catalog.find((entry) => entry.id === id)
}

function debian(release: string, suite: string): CatalogEntry {
  return {
    id: `debian-${release}`,
    name: `Debian ${release}`,
    distro: 'debian',
    release,
    arch: hostArch,
    description: `Debian ${release} (${suite}), minimal, with systemd and SSH`,
    virtualization: 'lxc',
    suite,
  }
}
