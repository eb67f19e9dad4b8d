import type { Schema } from './flags.js'
import type { Argument, NamedKind } from './operation.js'

/* Derives the arguments of commands from the paths and bodies of operations. */

/** The argument of an operation whose body is a file. */
export const archive: Argument = {
  label: 'file',
  place: 'file',
  field: '',
  text: 'Archive of `berth guest export`; `-` reads the standard input.',
}

const namedBy: Readonly<Record<string, NamedKind>> = { containers: 'guest', hosts: 'host' }

const labels: Readonly<Record<string, string>> = {
  containers: 'guest',
  copies: 'copy',
  'port-mappings': 'index',
  'sub-users': 'customer',
  deliveries: 'delivery',
}

/** Texts of arguments, except ids of objects that have a command `list`. */
const texts: Readonly<Record<string, string>> = {
  guest: 'Name, id or UUID of the guest.',
  host: 'Name, id or UUID of the host.',
  copy: 'UUID of the guest of which this is a copy, see `berth host copies`.',
  delivery: 'Id of the delivery, see `berth webhook deliveries`.',
  index: 'Position of the mapping in `port_mappings` of `berth guest get`. The first mapping has position 0.',
}

/** Returns the arguments for the parameters of a path. */
export function pathArguments(path: string): Argument[] {
  return [...path.matchAll(/([^/]+)\/\{(\w+)\}/g)].map(([, segment = '', field = '']) => {
    const label = labels[segment] ?? segment.replace(/s$/, '')
    return {
      label,
      place: 'path',
      field,
      text: texts[label] ?? `Id of the ${label.replaceAll('-', ' ')}, see \`berth ${label} list\`.`,
      ...(namedBy[segment] && { names: namedBy[segment] }),
    }
  })
}

/** Returns an argument for the name of a new object if the request requires a name. */
export function mainField(method: string, path: string, { required = [], properties = {} }: Schema): Argument[] {
  const field = ['name', 'username'].find((name) => required.includes(name))
  if (method !== 'POST' || field === undefined || /login|custom/.test(path)) return []
  return [{ label: 'name', place: 'body', field, text: properties[field]?.description ?? 'Name of the new object.' }]
}
