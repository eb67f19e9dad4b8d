import type { Schema } from './flags.js'
import type { Flag, ObjectKey } from './operation.js'

/* This module lists the keys of flags whose values are objects, such as `--port guest_port=80`. */

/** Above this number, the help only names the keys. */
const maxDescribed = 12

/**
 * @param schema schema of the object
 * @param resolve resolves a `$ref`
 */
export function keysOf(schema: Schema, resolve: (schema: Schema) => Schema): ObjectKey[] {
  const required = new Set(schema.required)
  const entries = Object.entries(schema.properties ?? {})
  const isShort = entries.length > maxDescribed
  return entries
    .map(([name, reference]) => {
      const own = resolve(reference)
      const text = isShort ? '' : (own.description ?? '')
      return { name, type: typeText(own, resolve), text, ...(required.has(name) && { isRequired: true as const }) }
    })
    .sort((a, b) => Number(b.isRequired ?? false) - Number(a.isRequired ?? false))
}

/** Returns the type or the allowed values of a key, such as `number` or `tcp or udp`. */
function typeText({ type, enum: values, items, properties }: Schema, resolve: (schema: Schema) => Schema): string {
  if (values) return values.join(', ').replace(/, ([^,]*)$/, ' or $1')
  if (type === 'array') return listText(resolve(items ?? {}))
  if (type === 'object') return properties ? `object with ${Object.keys(properties).join(', ')}` : 'object'
  return { integer: 'number', number: 'number', boolean: 'true or false' }[type ?? ''] ?? 'text'
}

const listText = ({ properties }: Schema): string =>
  properties ? `list of objects with ${Object.keys(properties).join(', ')}` : 'list'

/** Examples of values that the examples of the API do not contain, by the field. */
const examples: Readonly<Record<string, string>> = {
  backup_schedule: 'interval_hours=24,time=03:30,retention=7',
  containers: 'name=web1,template_id=debian-12,ram_mb=512',
  credential: '@credential.json',
  firewall: `'{"enabled":true,"default_action":"DROP","rules":[{"direction":"in","protocol":"tcp","action":"ACCEPT"}]}'`,
  nat_port_mappings: 'container_port=80,host_port=20080,protocol=tcp',
  placement: 'group=berlin,spread=web',
  public_ipv4_addresses: 'address=203.0.113.7,interface=eth0,prefix_len=24,gateway=203.0.113.1',
  rules: 'direction=in,protocol=tcp,port=443,action=ACCEPT',
}

/** Returns an example of the value of a flag. @param ofApi example of the API in the form for flags, if there is one */
export const objectExample = ({ field }: Pick<Flag, 'field'>, ofApi: string | undefined): string =>
  examples[field] ?? ofApi ?? 'key=value'
