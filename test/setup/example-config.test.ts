import { readFileSync } from 'node:fs'
import { expect } from 'chai'
import type { TSchema } from 'typebox'
import { parse } from 'yaml'
import { AgentConfigSchema } from '../../agent/config.js'
import { GatewayConfigSchema } from '../../gateway/config.js'
import { validateConfig } from '../../shared/config.js'

interface Section {
  properties?: Record<string, Section>
}

/** The keys that have a value, each as a path with dots. */
function listKeys(schema: Section, path = ''): string[] {
  return Object.entries(schema.properties ?? {}).flatMap(([key, child]) =>
    child.properties ? listKeys(child, `${path}${key}.`) : [`${path}${key}`],
  )
}

function findValue(root: unknown, path: string): unknown {
  return path.split('.').reduce<unknown>((at, key) => (at as Record<string, unknown> | undefined)?.[key], root)
}

const examples: [name: string, schema: TSchema, withoutDefault: string[]][] = [
  // The example sets this key to another value than its default: the image that `scripts/up` requests at once.
  ['agent', AgentConfigSchema, ['images.prefetch']],
  ['gateway', GatewayConfigSchema, []],
]

for (const [name, schema, differing] of examples)
  describe(`systemd/${name}.example.yaml`, () => {
    const text = readFileSync(`systemd/${name}.example.yaml`, 'utf8')
    const defaults: unknown = validateConfig(schema, {}, 'defaults')

    it('is a valid configuration', () => {
      expect(() => validateConfig(schema, parse(text), name)).not.to.throw()
    })

    for (const key of listKeys(schema))
      it(`shows the default of ${key}`, () => {
        const shown = findValue(parse(text), key)
        if (differing.includes(key)) expect(shown).not.to.equal(undefined)
        else expect(shown).to.deep.equal(findValue(defaults, key))
      })

    it('has a comment between each blank line and the next key', () => {
      const lines = text.split('\n')
      const bare = lines.filter((line, at) => /^\s*\w+: \S/.test(line) && lines[at - 1] === '')
      expect(bare).to.deep.equal([])
    })
  })
