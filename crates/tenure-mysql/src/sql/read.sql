CREATE PROCEDURE tenure_read_1(IN a_questions LONGBLOB, IN a_bytes BIGINT UNSIGNED)
    READS SQL DATA
    SQL SECURITY INVOKER
    COMMENT 'Tenure: answers questions as of one instant. The argument is packed as pack.rs says.'
BEGIN
    DECLARE v_at, v_end, v_kind, v_limit, v_length, v_size BIGINT UNSIGNED DEFAULT 0;
    DECLARE v_after BINARY(12);
    DECLARE v_name, v_behind VARBINARY(1025);

    START TRANSACTION WITH CONSISTENT SNAPSHOT;
    SET v_at = 1, v_end = LENGTH(a_questions);
    WHILE v_at < v_end DO
        SET v_kind = ORD(SUBSTRING(a_questions, v_at, 1)),
            v_limit = CONV(HEX(SUBSTRING(a_questions, v_at + 1, 4)), 16, 10),
            v_length = CONV(HEX(SUBSTRING(a_questions, v_at + 5, 2)), 16, 10),
            v_size = CONV(HEX(SUBSTRING(a_questions, v_at + 7, 2)), 16, 10),
            v_name = SUBSTRING(a_questions, v_at + 9, v_length),
            v_behind = SUBSTRING(a_questions, v_at + 9 + v_length, v_size),
            v_at = v_at + 9 + v_length + v_size;
        IF v_kind = 0 THEN
            SELECT name, version, value FROM tenure_kv WHERE name = v_name;
        ELSEIF v_kind = 1 THEN
            SELECT kv.name, kv.version, kv.value
                FROM (
                    SELECT name, weight, SUM(weight) OVER (ORDER BY name ROWS UNBOUNDED PRECEDING) AS held
                        FROM (
                            SELECT name, weight FROM tenure_kv
                                WHERE name >= v_name AND name < v_behind ORDER BY name LIMIT v_limit
                        ) AS few
                ) AS page
                STRAIGHT_JOIN tenure_kv AS kv ON kv.name = page.name
                WHERE page.held - page.weight <= a_bytes ORDER BY page.name;
        ELSEIF v_kind = 2 THEN
            SELECT kv.name, kv.version, kv.value
                FROM (
                    SELECT name, weight, SUM(weight) OVER (ORDER BY name ROWS UNBOUNDED PRECEDING) AS held
                        FROM (
                            SELECT name, weight FROM tenure_kv WHERE name >= v_name ORDER BY name LIMIT v_limit
                        ) AS few
                ) AS page
                STRAIGHT_JOIN tenure_kv AS kv ON kv.name = page.name
                WHERE page.held - page.weight <= a_bytes ORDER BY page.name;
        ELSE
            SET v_after = v_behind;
            SELECT entries.id AS name, 0 AS version, entries.value
                FROM (
                    SELECT id, weight, SUM(weight) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS held
                        FROM (
                            SELECT id, weight FROM tenure_entries
                                WHERE list = v_name AND id > v_after ORDER BY id LIMIT v_limit
                        ) AS few
                ) AS page
                STRAIGHT_JOIN tenure_entries AS entries ON entries.list = v_name AND entries.id = page.id
                WHERE page.held - page.weight <= a_bytes ORDER BY page.id;
        END IF;
    END WHILE;
    COMMIT;
END
