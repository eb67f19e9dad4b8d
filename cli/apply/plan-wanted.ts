import { checkGuestName } from '../../shared/guest-rules.js'
import { isRecord } from '../output/table.js'
import { checked, InvalidValue, type Path } from './forms.js'
import { kinds, nameKey, type Fields, type Kind } from './kinds.js'
import { defaultSet, isSetName } from './marks.js'

/* Checks the documents of a fleet file and converts them to the wanted objects. */

/** A part of a fleet file. */
export interface Place {
  /** Index of the YAML document. */
  readonly document: number
  readonly path: Path
}

export interface Problem extends Place {
  readonly message: string
}

export interface WantedItem extends Place {
  readonly kind: Kind
  /** Name of the object; empty if there is only one object of this kind. */
  readonly name: string
  /** Fields in the file. The program does not change other fields. */
  readonly fields: Fields
}

export interface WantedState {
  /** Name of the set that the guests of this file belong to. */
  readonly set: string
  readonly sections: ReadonlySet<string>
  readonly items: readonly WantedItem[]
}

/** Converts the documents. If there are problems, the wanted objects are incomplete. */
export function planWanted(documents: readonly unknown[]): { wanted: WantedState; problems: Problem[] } {
  const plan = new WantedPlan()
  documents.forEach((value, document) => plan.add(value, document))
  return plan.end()
}

class WantedPlan {
  readonly #problems: Problem[] = []
  readonly #items: WantedItem[] = []
  readonly #sections = new Set<string>()
  #set: string | undefined

  add(value: unknown, document: number): void {
    if (value === null) return
    if (!isRecord(value)) return this.#report({ document, path: [] }, 'must be a map with sections such as guests')
    for (const [name, content] of Object.entries(value)) this.#addSection({ document, path: [name] }, name, content)
  }

  end(): { wanted: WantedState; problems: Problem[] } {
    this.#refuseTwice()
    const wanted = { set: this.#set ?? defaultSet, sections: this.#sections, items: this.#items }
    return { wanted, problems: this.#problems }
  }

  #report(place: Place, message: string): void {
    this.#problems.push({ ...place, message })
  }

  #addSection(place: Place, name: string, content: unknown): void {
    if (name === 'set') return this.#addSet(place, content)
    const kind = kinds.find(({ section }) => section === name)
    if (kind === undefined) return this.#report(place, `is not a section; possible: ${sectionNames.join(', ')}`)
    this.#sections.add(name)
    if (kind.nameField === undefined) return this.#addItem(place, kind, { name: '', fields: content })
    if (!Array.isArray(content)) return this.#report(place, 'must be a list')
    content.forEach((one: unknown, index) => this.#addNamed({ ...place, path: [...place.path, index] }, kind, one))
  }

  #addSet(place: Place, name: unknown): void {
    if (this.#set !== undefined) this.#report(place, 'appears more than once')
    else if (typeof name === 'string' && isSetName(name)) this.#set = name
    else this.#report(place, 'must be 1 to 20 lower-case letters, digits, "-", "_" and "."')
  }

  #addNamed(place: Place, kind: Kind, value: unknown): void {
    if (!isRecord(value)) return this.#report(place, 'must be a map of fields')
    const { name, ...fields } = value
    const problem = nameProblem(kind, name)
    if (problem !== undefined) this.#report({ ...place, path: [...place.path, 'name'] }, problem)
    this.#addItem(place, kind, { name: String(name), fields })
  }

  #addItem(place: Place, kind: Kind, { name, fields }: { name: string; fields: unknown }): void {
    if (!isRecord(fields)) return this.#report(place, 'must be a map of fields')
    const parsed = Object.entries(fields).flatMap(([field, value]) => this.#parseField(place, kind, [field, value]))
    this.#items.push({ ...place, kind, name, fields: withImageLimit(kind, Object.fromEntries(parsed)) })
  }

  #parseField(place: Place, kind: Kind, [name, value]: [string, unknown]): [string, unknown][] {
    const at = (...path: Path): Place => ({ ...place, path: [...place.path, name, ...path] })
    const field = kind.fields.find((one) => one.name === name)
    if (field === undefined) {
      this.#report(at(), `is not a field; possible: ${fieldNames(kind)}`)
      return []
    }
    try {
      return [[name, field.form.parse(value)]]
    } catch (cause) {
      if (!(cause instanceof InvalidValue)) throw cause
      this.#report(at(...cause.path), cause.message)
      return []
    }
  }

  #refuseTwice(): void {
    const known = new Set<string>()
    for (const item of this.#items) {
      const key = `${item.kind.noun} ${nameKey(item.kind, item.name)}`
      const subject = item.name === '' ? item.kind.section : `${item.kind.noun} ${item.name}`
      if (known.has(key)) this.#report(item, `${subject} appears more than once`)
      known.add(key)
    }
  }
}

const sectionNames = ['set', ...kinds.map(({ section }) => section)]

const fieldNames = ({ nameField, fields }: Kind): string =>
  [...(nameField === undefined ? [] : ['name']), ...fields.map(({ name }) => name)].join(', ')

function nameProblem({ noun }: Kind, name: unknown): string | undefined {
  if (name === undefined) return 'is required'
  if (typeof name !== 'string' || name.trim() !== name || name === '')
    return 'must be a text without spaces at its beginning or end'
  try {
    if (noun === 'guest') checked(() => checkGuestName(name))
    return undefined
  } catch (cause) {
    return (cause as Error).message
  }
}

/** If the file lists the allowed images of a customer, the limit takes effect, even if the list is empty. */
function withImageLimit({ noun }: Kind, fields: Fields): Fields {
  const isImplied = noun === 'customer' && fields['allowed_images'] !== undefined
  return isImplied ? { image_limit_configured: true, ...fields } : fields
}
