import type { Guest } from '../api/types.ts'
import type { Mode } from './link.ts'

/** Returns the console modes of a guest, the default first. @param may returns whether the user has a scope */
export function modesOf({ virtualization }: Pick<Guest, 'virtualization'>, may: (scope: string) => boolean): Mode[] {
  const all: Mode[] = virtualization === 'kvm' ? ['vnc', 'serial'] : ['shell', 'serial']
  return all.filter((mode) => may(mode === 'vnc' ? 'terminal:vnc' : 'terminal:ssh'))
}
