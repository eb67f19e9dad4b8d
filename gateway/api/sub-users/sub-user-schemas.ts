import { Type } from 'typebox'
import { usernamePattern } from '../../accounts/account-record.js'
import { subUserPermissions } from '../../access/sub-user-bounds.js'
import { networkLimits } from '../../../shared/network-limits.js'
import { containerRef, restricts, trimmed } from '../../http/normalize.js'
import { oneOf, TimeSchema } from '../../http/schema.js'
import { TemplateIdSchema } from '../guests/create-body.js'
import { ExpirySchema } from '../guests/setting-schemas.js'

const optional = Type.Optional
const ContainerRefSchema = Type.String({
  ...containerRef,
  maxLength: 64,
  description: 'Name, uuid or numeric id.',
})
const maxContainers = 1000

const terms = {
  container_names: optional(
    Type.Array(ContainerRefSchema, {
      ...{ ...restricts, maxItems: maxContainers },
      description: 'Containers that it gets: names, uuids or numeric ids. Empty: none.',
    }),
  ),
  permissions: optional(
    Type.Array(oneOf(subUserPermissions), {
      ...{ ...restricts, maxItems: subUserPermissions.length },
      description:
        'What it may do with them; absent at creation: all that the caller has of it. `container:network:inner` is ' +
        'to change the ports inside of mappings alone.',
    }),
  ),
  allowed_image_ids: optional(
    Type.Array(TemplateIdSchema, {
      ...{ ...restricts, maxItems: 1000 },
      description: 'Images that it may reinstall from. Empty: none.',
    }),
  ),
  image_limit_configured: optional(
    Type.Boolean({ ...restricts, description: '`false`: any enabled image, without `allowed_image_ids`.' }),
  ),
  port_mapping_limit: optional(
    Type.Integer({
      ...{ ...restricts, minimum: 0, maximum: networkLimits.port.max },
      description: 'It adds no mapping where more host ports would lead to the container, over all mappings.',
    }),
  ),
  expires_at: optional({ ...ExpirySchema, ...restricts }),
  disabled: optional(Type.Boolean(restricts)),
}

export const CreateSubUserSchema = Type.Object(
  {
    container_name: optional(
      Type.String({
        ...containerRef,
        maxLength: 64,
        description: 'One container. Ignored if `container_names` is sent.',
      }),
    ),
    username: optional(
      Type.String({
        ...{ ...trimmed, pattern: usernamePattern },
        description: 'Absent: one is made. Of a caller that is bound to containers it gets a random end.',
      }),
    ),
    ...terms,
  },
  { title: 'NewSubUser' },
)

export const ChangeSubUserSchema = Type.Object(terms, { title: 'SubUserChange' })

export const RotateSchema = Type.Object(
  { rotate_code: optional(Type.Boolean({ description: 'A new access code too: the old link ends.' })) },
  { title: 'RotatePassword' },
)

const credentials = {
  username: Type.String(),
  password: Type.String({
    description: 'In clear, only here; empty where the sub-user was there already.',
  }),
  access_code: Type.String({ description: 'Of its link `/u/CODE`, which asks for the password.' }),
  link: Type.String({
    description:
      'Complete link to log in. Empty: the public URL of the panel is not known, see `/public-url`.',
  }),
}

export const CreatedSubUserSchema = Type.Object(
  {
    id: Type.String(),
    ...credentials,
    container_names: Type.Array(Type.String()),
    created_at: TimeSchema,
    created: Type.Boolean({
      description: '`false`: the sub-user already existed and is unchanged; `password` is empty.',
    }),
  },
  { title: 'CreatedSubUser' },
)

export const RotatedSchema = Type.Object(credentials, { title: 'RotatedPassword' })

const words = (description: string) => Type.Array(Type.String(), { description })

export const SubUserRowSchema = Type.Object(
  {
    id: Type.String(),
    username: Type.String(),
    container_name: Type.String({ description: 'The first of `container_names`.' }),
    container_uuid: Type.String(),
    container_names: words('As they are called now.'),
    container_uuids: words('In the same order.'),
    access_code: credentials.access_code,
    link: credentials.link,
    permissions: Type.Array(oneOf(subUserPermissions)),
    allowed_image_ids: words('Images that it may reinstall from, where `image_limit_configured`.'),
    image_limit_configured: Type.Boolean(),
    current_image_ids: words('What its containers were made from.'),
    port_mapping_limit: Type.Integer(),
    created_at: TimeSchema,
    created_by: Type.String({ description: 'Who made it: `key:ID` or `admin:ID`.' }),
    last_login: TimeSchema,
    last_login_ip: Type.String(),
    last_login_ua: Type.String(),
    expires_at: TimeSchema,
    disabled: Type.Boolean(),
  },
  { title: 'SubUser' },
)

export const SubUserPathSchema = Type.Object({
  id: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
})
