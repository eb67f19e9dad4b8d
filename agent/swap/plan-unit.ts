import { basename } from 'node:path/posix'

/**
 * Returns the name that systemd requires for the unit of a swap file ("String escaping for inclusion in unit names" in
 * systemd.unit(5)).
 * @param path absolute and normalized path of the swap file
 */
export function unitNameOf(path: string): string {
  const escaped = [...Buffer.from(path.replace(/^\/+/, ''))].map((byte, index) => escapeByte(byte, index === 0))
  return `${escaped.join('')}.swap`
}

function escapeByte(byte: number, isFirst: boolean): string {
  const character = String.fromCharCode(byte)
  if (character === '/') return '-'
  const isPlain = /[A-Za-z0-9:_.]/.test(character) && !(isFirst && character === '.')
  return isPlain ? character : `\\x${byte.toString(16).padStart(2, '0')}`
}

/** Returns the text of a unit, with `%` escaped. systemd mounts the file's file system first (systemd.swap(5)). */
export function unitTextOf(path: string): string {
  return [
    '# Made by berth-agent, which removes it again.',
    '[Unit]',
    `Description=Swap file of Berth, ${basename(path)}`.replaceAll('%', '%%'),
    '',
    '[Swap]',
    `What=${path.replaceAll('%', '%%')}`,
    '',
    '[Install]',
    'WantedBy=swap.target',
    '',
  ].join('\n')
}

/** Returns the path of the unit, and the path and target of the link that makes systemd start it at boot. */
export function unitFilesOf(directory: string, path: string): { unit: string; link: string; target: string } {
  const name = unitNameOf(path)
  return {
    unit: `${directory}/${name}`,
    link: `${directory}/swap.target.wants/${name}`,
    target: `../${name}`,
  }
}
