import { expect } from 'chai'
import { kinds, type ChangeKind, type Field, type Kind } from '../../cli/apply/kinds.js'
import { apiDocument } from '../../scripts/lib/api-document.js'

interface Schema {
  readonly $ref?: string
  readonly type?: string
  readonly items?: Schema
  readonly enum?: readonly string[]
  readonly properties?: Readonly<Record<string, Schema>>
}

interface ApiDocument {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> }
}

interface Content {
  readonly content: { readonly 'application/json': { readonly schema: Schema } }
}
interface Operation {
  readonly requestBody: Content
  readonly responses: Readonly<Record<string, Content>>
}

const document = apiDocument() as unknown as ApiDocument

function resolved(schema: Schema): Schema {
  return schema.$ref === undefined ? schema : document.components.schemas[schema.$ref.split('/').at(-1)!]!
}

const bodyOf = (method: string, path: string) =>
  resolved(document.paths[path]![method]!.requestBody.content['application/json'].schema).properties ?? {}

/** Returns the schemas of the fields in the data of `GET path`. If the data is a list, these are fields of a row. */
function rowOf({ path }: Kind) {
  const { schema } = document.paths[path]!['get']!.responses['200']!.content['application/json']
  const data = resolved(resolved(schema).properties!['data']!)
  return resolved(data.items ?? data).properties ?? {}
}

const settingPaths: Readonly<Partial<Record<ChangeKind, readonly [string, string]>>> = {
  limits: ['put', '/containers/{id}/resource-limit'],
  labels: ['patch', '/containers/{id}'],
  expiry: ['put', '/containers/{id}/expiry'],
  traffic: ['put', '/containers/{id}/traffic-limit'],
  snapshots: ['put', '/containers/{id}/snapshots/quota'],
  devices: ['put', '/containers/{id}/devices'],
}

/** Returns method and path of the request that changes a field. Undefined: it is fixed, or has its own endpoint. */
function changeOf({ path, nameField }: Kind, { change }: Field): readonly [string, string] | undefined {
  if (change !== 'item') return settingPaths[change]
  return nameField === undefined ? ['put', path] : ['patch', `${path}/{id}`]
}

describe('the fields of a fleet file', () => {
  for (const kind of kinds)
    for (const field of kind.fields)
      it(`${kind.section}: ${field.name} exists in the API`, () => {
        if (kind.nameField !== undefined && !field.isAddedLater)
          expect(bodyOf('post', kind.createPath)).to.have.property(field.api)
        const change = changeOf(kind, field)
        if (change) expect(bodyOf(...change)).to.have.property(field.api)
        if (field.change !== 'initial' && field.name !== 'firewall') expect(rowOf(kind)).to.have.property(field.row)
        const words = rowOf(kind)[field.row]?.enum
        for (const word of words ?? []) expect(field.form.parse(word)).to.equal(word)
      })
})
